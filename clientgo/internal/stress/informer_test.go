package stress

import (
	"context"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An informer with no option set follows pods of many workloads that come and go, in each encoding,
// over TLS and without it. Each pod is what apimachinery makes of it.
func TestInformers(t *testing.T) {
	for _, tls := range []bool{false, true} {
		for _, enc := range []decode.Encoding{decode.JSON, decode.Protobuf, decode.CBOR} {
			t.Run(fmt.Sprintf("%s, TLS %v", []string{"JSON", "protobuf", "CBOR"}[enc], tls), func(t *testing.T) {
				leak.Collect(t, 5*time.Millisecond)
				follow(t, enc, tls)
			})
		}
	}
}

// pods are pods of 40 workloads, ten of each.
func pods(rng *rand.Rand) (all []*corev1.Pod) {
	g := &gen{Rand: rng}
	for range 40 {
		base := g.random(reflect.TypeFor[corev1.Pod](), 20+g.Intn(200))
		for range 10 {
			g.leafOnly = true
			pod := clone(base).(*corev1.Pod)
			for range g.Intn(12) {
				g.mutate(reflect.ValueOf(pod).Elem(), 0)
			}
			pod.Namespace, pod.UID = "ns", "u"
			all = append(all, pod)
		}
	}
	return all
}

// follow has an informer follow n pods, of which one goes as another one comes.
func follow(t *testing.T, enc decode.Encoding, tls bool) {
	const n = 300
	k := of[corev1.Pod, corev1.Pod]("Pod", "v1", true, false)
	mime := []string{"application/json", "application/vnd.kubernetes.protobuf;stream=watch", "application/cbor-seq"}[enc]
	all := pods(rand.New(rand.NewSource(*seed)))
	want := make([]*corev1.Pod, len(all))
	for i, pod := range all {
		want[i] = new(corev1.Pod)
		by := enc
		if enc == decode.CBOR {
			by = decode.JSON
		}
		rig.OK(t, decodedBy(by, k.write(pod, by), want[i]))
		typeless(want[i])
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mime)
		version := 10
		write := func(typ string, i int) {
			pod := *all[i%len(all)]
			version++
			pod.Name, pod.ResourceVersion = "pod-"+strconv.Itoa(i), strconv.Itoa(version)
			_, _ = w.Write(event(enc, k, typ, k.write(&pod, enc)))
		}
		for i := range n {
			write("ADDED", i)
		}
		_, _ = w.Write(event(enc, k, "BOOKMARK", bookmark(enc, k, version)))
		for i := n; r.Context().Err() == nil; i++ {
			write("DELETED", i-n)
			write("ADDED", i)
		}
	}))
	if tls {
		server.StartTLS()
	} else {
		server.Start()
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := &lw.HTTP[*corev1.Pod]{URL: server.URL + "/api/v1/pods", Client: server.Client()}
	src.Accept = []string{"application/json", "", "application/cbor"}[enc]
	informer := lw.NewInformer(src, nil)
	events, end := 0, time.Now().Add(*duration/6)
	check := func(got *corev1.Pod) { // one after the other
		if events++; events > 2*n && time.Now().After(end) || t.Failed() {
			cancel()
		}
		i, err := strconv.Atoi(strings.TrimPrefix(got.Name, "pod-"))
		if err != nil {
			t.Error(err)
			return
		}
		pod := *want[i%len(want)]
		pod.Name, pod.ResourceVersion = got.Name, got.ResourceVersion
		if !reflect.DeepEqual(&pod, got) {
			t.Errorf("another pod (-want +got):\n%.2000s", cmp.Diff(&pod, got))
		}
	}
	informer.AddHandler(lw.Handler[*corev1.Pod]{Add: check, Delete: check})
	if err := informer.Run(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d events", events)
}
