package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/e2e/internal/servers"
)

// A webSocketSource lists as lw.HTTP does and watches over a WebSocket, as browsers do. It is a
// Source that lw does not know.
type webSocketSource struct {
	list   *lw.HTTP[*corev1.ConfigMap]
	config *rest.Config
	opened atomic.Int64 // watches that the server took
	ended  atomic.Int64 // that it ended with a close frame
}

func (s *webSocketSource) List(ctx context.Context, opts metav1.ListOptions, yield func(*corev1.ConfigMap, error) error) (metav1.ListMeta, error) {
	return s.list.List(ctx, opts, yield)
}

func (s *webSocketSource) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*corev1.ConfigMap]) error) error {
	opts.Watch = true
	query, err := scheme.ParameterCodec.EncodeParameters(&opts, corev1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	tlsConfig, err := rest.TLSConfigFor(s.config)
	if err != nil {
		return err
	}
	dialer := websocket.Dialer{TLSClientConfig: tlsConfig, HandshakeTimeout: 10 * time.Second}
	// The server refuses a handshake without an origin.
	header := http.Header{"Origin": {"http://127.0.0.1"}, "Authorization": {"Bearer " + s.config.BearerToken}}
	conn, _, err := dialer.DialContext(ctx, strings.Replace(s.list.URL, "https:", "wss:", 1)+"?"+query.Encode(), header)
	if err != nil {
		return err
	}
	s.opened.Add(1)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for {
		_, frame, err := conn.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseNoStatusReceived) {
			s.ended.Add(1)
			return nil
		}
		if err != nil {
			return err
		}
		event, err := parseEvent(frame)
		if err != nil {
			return err
		}
		if err := yield(event); err != nil {
			return err
		}
	}
}

func parseEvent(frame []byte) (lw.WatchEvent[*corev1.ConfigMap], error) {
	var raw struct {
		Type   watch.EventType
		Object json.RawMessage
	}
	event := lw.WatchEvent[*corev1.ConfigMap]{}
	if err := json.Unmarshal(frame, &raw); err != nil {
		return event, err
	}
	if raw.Type == watch.Error {
		var status metav1.Status
		if err := json.Unmarshal(raw.Object, &status); err != nil {
			return event, err
		}
		return event, apierrors.FromObject(&status)
	}
	obj := &corev1.ConfigMap{}
	if err := json.Unmarshal(raw.Object, obj); err != nil {
		return event, err
	}
	event.Type, event.ResourceVersion = raw.Type, obj.ResourceVersion
	if raw.Type == watch.Bookmark {
		event.InitialEventsEnd = obj.Annotations[metav1.InitialEventsAnnotationKey] == "true"
		return event, nil
	}
	event.Object = obj
	return event, nil
}

// TestWebSocket follows a collection over WebSockets, through time-outs, a restart, and a version
// that expired.
func TestWebSocket(t *testing.T) {
	on(t, func(t *testing.T, kind servers.Kind) {
		const namespace = "websocket"
		s := startServer(t, kind)
		r := s.Reader("")
		defer r.Close()
		c := newClient(t, s, wire{name: "websocket"})
		path := collection("configmaps", namespace)
		src := &webSocketSource{list: &lw.HTTP[*corev1.ConfigMap]{URL: s.URL + path, Client: c.http}, config: c.config}
		f := follow(t, c, path, src, followOptions{Options: lw.Options{WatchTimeout: 2 * time.Second}})
		f.synced()
		writes := startChurn(t, s, namespace)
		eventually(t, patience, func() string {
			if n := src.ended.Load(); n < 2 {
				return fmt.Sprintf("%d watches ended with a close frame, want 2", n)
			}
			return ""
		})
		opened := src.opened.Load()
		s.KillAPI()
		f.told("the broken WebSocket", func(err error) bool {
			var status apierrors.APIStatus
			return !errors.As(err, &status)
		})
		if err := s.StartAPI(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		writes.more(t, 30)
		writes.stop()
		f.same(r)
		if src.opened.Load() == opened {
			t.Error("no WebSocket was opened after the restart")
		}
		if n := c.count(isVerb(verbStream, verbWatch)); n > 0 {
			t.Errorf("%d watches did not go over a WebSocket", n)
		}
		if most := 6 + int64(time.Since(f.start).Seconds()/1.1); src.opened.Load() > most {
			t.Errorf("%d WebSockets, want at most %d", src.opened.Load(), most)
		}
	}, servers.Generic)
}
