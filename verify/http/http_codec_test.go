package http_test

import (
	"encoding/binary"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// cborOf returns v in CBOR, as a server writes it.
func cborOf(t testing.TB, v any) string {
	t.Helper()
	b, err := direct.Marshal(v)
	rig.OK(t, err)
	return "\xd9\xd9\xf7" + string(b)
}

func TestHTTPCBOR(t *testing.T) {
	source := func(code int, media, body string) *lw.HTTP[*rig.Sprocket] {
		c, _, _ := rig.Answer(code, rig.ContentType(media), body)
		return &lw.HTTP[*rig.Sprocket]{URL: "http://server/", Client: c, Accept: "application/cbor,application/json"}
	}
	a := rig.Sprocket{TypeMeta: metav1.TypeMeta{Kind: "Sprocket", APIVersion: "example.com/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "5"}}
	broken := map[string]any{"kind": "Sprocket", "apiVersion": "example.com/v1",
		"metadata": map[string]any{"namespace": "ns", "name": "b", "resourceVersion": "6"},
		"spec":     map[string]any{"color": 7}}
	list := cborOf(t, map[string]any{"kind": "SprocketList", "apiVersion": "example.com/v1",
		"metadata": map[string]any{"resourceVersion": "9"}, "items": []any{a, broken}})

	got, m, err := rig.ListAll(t.Context(), source(200, "application/cbor", list), metav1.ListOptions{})
	if diff := cmp.Diff([]string{"ns/a@5"}, got.What); err != nil || diff != "" || len(got.Errs) != 1 ||
		m.ResourceVersion != "9" {
		t.Errorf("list: error %v, metadata %v, set aside %v (-want +got):\n%s", err, m, got.Errs, diff)
	}
	if len(got.Errs) == 1 && !strings.Contains(got.Errs[0].Error(), "ns/b: spec.color: at byte ") {
		t.Errorf("set aside: %v", got.Errs[0])
	}

	event := func(typ string, object any) string {
		return cborOf(t, &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: []byte(cborOf(t, object))}})
	}
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Reason: metav1.StatusReasonExpired, Code: 410, Message: "gone"}
	got, err = watchAll(t.Context(), source(200, "application/cbor-seq", event("ADDED", &a)+event("MODIFIED", broken)+
		event("BOOKMARK", broken)+event("ERROR", &status)), metav1.ListOptions{})
	want := []string{"ADDED ns/a@5 end=false", "MODIFIED ns/b@6 end=false", "BOOKMARK /@6 end=false"}
	if diff := cmp.Diff(want, got.What); !apierrors.IsResourceExpired(err) || diff != "" || len(got.Errs) != 1 {
		t.Errorf("watch: error %v, set aside %v (-want +got):\n%s", err, got.Errs, diff)
	}

	status.Reason, status.Code, status.Message = metav1.StatusReasonForbidden, 403, "no"
	_, _, err = rig.ListAll(t.Context(), source(403, "application/cbor", cborOf(t, &status)), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || err.Error() != "lw: HTTP: http://server/: no" {
		t.Errorf("a refusal in CBOR: %v", err)
	}
	// An error says what the bytes are not, where, and from which URL.
	for body, want := range map[string]string{
		list[:40]:     "lw: HTTP: http://server/: cut off at byte 40: unexpected EOF",
		"<html>":      "lw: HTTP: http://server/: invalid CBOR at byte 0: a list begins with '<'",
		cborOf(t, &a): "lw: HTTP: http://server/: want a list of Sprocket objects, got a Sprocket (is it the URL of one object?): no list: it is a Sprocket",
		event("ADDED",
			a): "lw: HTTP: http://server/: want a list of Sprocket objects, got events of a watch: no list: it has no kind",
	} {
		if _, _, err := rig.ListAll(t.Context(), source(200, "application/cbor", body), metav1.ListOptions{}); err == nil ||
			err.Error() != want {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
	err = source(200, "application/cbor-seq", list).Watch(t.Context(), metav1.ListOptions{},
		func(lw.WatchEvent[*rig.Sprocket]) error { return nil })
	if err == nil || !strings.Contains(err.Error(),
		"want a stream of watch events of Sprocket objects, got a SprocketList (does a proxy drop the query?)") {
		t.Errorf("a list for a watch: %v", err)
	}
}

// CBOR comes only to who asks for it, and an informer over it has what one over JSON has.
func TestHTTPCBORIsAskedFor(t *testing.T) {
	server := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "sprockets", Kind: "Sprocket"})
	parts := lwtest.Objects[*rig.Sprocket](server, "sprockets")
	for i, name := range []string{"a", "b", "c"} {
		s := &rig.Sprocket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		s.Spec.Color = strings.Repeat("red", i)
		rig.Must[*rig.Sprocket](t)(parts.Create(s))
	}
	errStop := errors.New("enough")
	var media []string
	client := *server.Client()
	client.Transport = rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		resp, err := server.Client().Transport.RoundTrip(r)
		if err == nil {
			media = append(media, resp.Header.Get("Content-Type"))
		}
		return resp, err
	})
	read := func(accept string, watch bool) (all []*rig.Sprocket) {
		h := &lw.HTTP[*rig.Sprocket]{URL: server.URL() + "/apis/example.com/v1/sprockets", Client: &client, Accept: accept}
		if !watch {
			return listed(t, h)
		}
		yes := true
		err := h.Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: "NotOlderThan",
			AllowWatchBookmarks: true, TimeoutSeconds: new(int64)},
			func(e lw.WatchEvent[*rig.Sprocket]) error {
				if e.InitialEventsEnd {
					return errStop
				}
				all = append(all, e.Object)
				return e.Err
			})
		if err != errStop {
			t.Fatalf("%q: %v", accept, err)
		}
		return all
	}
	for _, watch := range []bool{false, true} {
		want := read("", watch)
		if got := read("application/cbor,application/json", watch); len(got) != 3 || cmp.Diff(want, got) != "" {
			t.Errorf("(-JSON +CBOR):\n%s", cmp.Diff(want, got))
		}
	}
	rig.Same(t, "answers", []string{"application/json", "application/cbor", "application/json", "application/cbor-seq"},
		media)
}

func TestHTTPProtobuf(t *testing.T) {
	marshal := func(m interface{ Marshal() ([]byte, error) }) []byte {
		t.Helper()
		b, err := m.Marshal()
		rig.OK(t, err)
		return b
	}
	object := func(kind string, m interface{ Marshal() ([]byte, error) }) []byte {
		u := &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: kind, APIVersion: "v1"}, Raw: marshal(m)}
		return append([]byte("k8s\x00"), marshal(u)...)
	}
	frame := func(typ string, object []byte) string {
		b := marshal(&metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: object}})
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b)
	}
	source := func(code int, body string) *lw.HTTP[*metav1.PartialObjectMetadata] {
		c, _, _ := rig.Answer(code, rig.ContentType("application/vnd.kubernetes.protobuf;stream=watch"), body)
		return &lw.HTTP[*metav1.PartialObjectMetadata]{URL: "http://server/", Client: c}
	}
	a := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "5"}}
	unnamed := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", ResourceVersion: "6"}}

	list, m, err := rig.ListAll(t.Context(),
		source(200, string(object("PartialObjectMetadataList", &metav1.PartialObjectMetadataList{
			ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []metav1.PartialObjectMetadata{a, unnamed},
		}))), metav1.ListOptions{})
	if diff := cmp.Diff([]string{"ns/a@5"}, list.What); err != nil || diff != "" || len(list.Errs) != 1 ||
		m.ResourceVersion != "9" {
		t.Errorf("list: error %v, metadata %v, set aside %v (-want +got):\n%s", err, m, list.Errs, diff)
	}

	got, err := watchAll(t.Context(), source(200, frame("ADDED", object("PartialObjectMetadata", &a))+
		frame("MODIFIED", object("PartialObjectMetadata", &unnamed))+
		frame("BOOKMARK", object("PartialObjectMetadata", &unnamed))+
		frame("ERROR", object("Status", &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410}))),
		metav1.ListOptions{})
	want := []string{"ADDED ns/a@5 end=false", "MODIFIED ns/@6 end=false", "BOOKMARK /@6 end=false"}
	if diff := cmp.Diff(want, got.What); !apierrors.IsResourceExpired(err) || diff != "" || len(got.Errs) != 1 {
		t.Errorf("watch: error %v, set aside %v (-want +got):\n%s", err, got.Errs, diff)
	}

	_, _, err = rig.ListAll(t.Context(), source(403,
		string(object("Status", &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonForbidden, Message: "no"}))),
		metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || err.Error() != "lw: HTTP: http://server/: no" {
		t.Errorf("a refusal in protobuf: %v", err)
	}
}

// A projection asks for protobuf by its tags. A struct without tags of its own asks for JSON, as
// does one whose source has an Accept of JSON alone; then it does not matter what tags there are.
func TestHTTPProjectionAccept(t *testing.T) {
	type tagged struct {
		lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	}
	type untagged struct {
		lw.Meta `json:"metadata"`
	}
	const empty = `{"kind":"XList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
	ask(t, &lw.HTTP[*tagged]{}, empty, "application/vnd.kubernetes.protobuf,application/json")
	ask(t, &lw.HTTP[*tagged]{Accept: "application/json"}, empty, "application/json")
	ask(t, &lw.HTTP[*rig.Numberless]{Accept: "application/json"}, empty, "application/json")
	ask(t, &lw.HTTP[*untagged]{}, empty, "application/json")
	ask(t, &lw.HTTP[*part]{}, empty, "application/json")
}

// ask lists h, which must ask for want.
func ask[T lw.Object](t *testing.T, h *lw.HTTP[T], body, want string) {
	t.Helper()
	c, asked, _ := rig.Answer(200, rig.ContentType("application/json"), body)
	h.URL, h.Client = "http://server/", c
	if _, _, err := rig.ListAll(t.Context(), h, metav1.ListOptions{}); err != nil || asked.Header.Get("Accept") != want {
		t.Errorf("%T asks for %q, error %v; want %q", h, asked.Header.Get("Accept"), err, want)
	}
}
