package websocket

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
)

// BenchmarkWatch is what an event costs lw.HTTP over a WebSocket and without one, from the bytes of
// the connection to the call of yield. The network costs nothing here.
func BenchmarkWatch(b *testing.B) {
	for _, accept := range []string{jsonType, protoType} {
		for _, over := range []string{"plain", "WebSocket"} {
			b.Run(fmt.Sprintf("%s/%s", strings.TrimPrefix(strings.TrimPrefix(accept, "application/"), "vnd.kubernetes."), over), func(b *testing.B) {
				line, message := benchEvent(b, accept)
				var base http.RoundTripper
				if over == "plain" {
					base = roundTrip(func(req *http.Request) (*http.Response, error) {
						return &http.Response{
							StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {accept}}, Request: req,
							Body: &repeated{data: line, times: b.N, err: io.EOF},
						}, nil
					})
				} else {
					opcode := byte(1)
					if accept == protoType {
						opcode = 2
					}
					frame := appendFrame(nil, true, opcode, message)
					s := &script{run: func(net.Conn) {}}
					base = &Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
						resp, err := s.RoundTrip(req)
						resp.Body.Close()
						resp.Body = &repeated{data: frame, times: b.N, last: closing(normal), err: io.ErrUnexpectedEOF}
						return resp, err
					})}
				}
				src := &lw.HTTP[*metav1.PartialObjectMetadata]{
					URL: "http://a.example/pods", Client: &http.Client{Transport: base}, Accept: accept, Whole: true,
				}
				n := 0
				b.ReportAllocs()
				b.SetBytes(int64(len(line)))
				err := src.Watch(b.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*metav1.PartialObjectMetadata]) error {
					n++
					return ev.Err
				})
				if err != nil || n != b.N {
					b.Fatalf("%d events, want %d; error %v", n, b.N, err)
				}
			})
		}
	}
}

// benchEvent returns an event as it is in an ordinary response, and in a message.
func benchEvent(b *testing.B, accept string) (line, message []byte) {
	object := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-7d9c5f8b6-x2x4z", UID: "0f2b7f1c-6f0c-4d7e-9c43-1f6f3f1f5a11", ResourceVersion: "123456",
			Labels:      map[string]string{"app": "web", "pod-template-hash": "7d9c5f8b6"},
			Annotations: map[string]string{"note": strings.Repeat("x", 500)},
		},
	}
	if accept == jsonType {
		line = fmt.Appendf(nil, `{"type":"MODIFIED","object":{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q,"uid":%q,"resourceVersion":%q,`+
			`"labels":{"app":"web","pod-template-hash":"7d9c5f8b6"},"annotations":{"note":%q}}}}`+"\n", object.APIVersion, object.Kind,
			object.Namespace, object.Name, object.UID, object.ResourceVersion, object.Annotations["note"])
		return line, line
	}
	raw, err := object.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: object.APIVersion, Kind: object.Kind}, Raw: raw}).Marshal()
	if err != nil {
		b.Fatal(err)
	}
	event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), envelope...)}}
	message, err = event.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), message
}

// repeated is a connection that says the same over and over, one at a time, and then something
// last.
type repeated struct {
	data  []byte
	times int
	last  []byte
	err   error
	rest  []byte
}

func (r *repeated) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		switch {
		case r.times > 0:
			r.rest = r.data
			r.times--
		case r.last != nil:
			r.rest, r.last = r.last, nil
		default:
			return 0, r.err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *repeated) Write(p []byte) (int, error) { return len(p), nil }
func (r *repeated) Close() error                { return nil }

// TestAllocations: the WebSocket itself allocates nothing for an event.
func TestAllocations(t *testing.T) {
	for _, test := range []struct {
		accept string
		frame  []byte
	}{{jsonType, text("{1}\n")}, {protoType, bin("\na")}, {jsonType, text(strings.Repeat(" ", 20_000) + "\n")}} {
		s := &script{run: func(net.Conn) {}}
		resp, err := (&Transport{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(req)
			resp.Body.Close()
			resp.Body = &repeated{data: test.frame, times: 1 << 20}
			return resp, err
		})}).RoundTrip(watchOf(t, test.accept))
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 8<<10)
		read := func() {
			if _, err := resp.Body.Read(p); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			read() // until the buffers are as large as they get
		}
		if n := testing.AllocsPerRun(1000, read); n != 0 {
			t.Errorf("%v allocations for a Read of %s messages of %d bytes", n, test.accept, len(test.frame))
		}
		resp.Body.Close()
	}
}
