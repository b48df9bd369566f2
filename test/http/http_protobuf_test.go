package http_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

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

	list, m, err := rig.ListAll(t.Context(), source(200, string(object("PartialObjectMetadataList", &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []metav1.PartialObjectMetadata{a, unnamed},
	}))), metav1.ListOptions{})
	if diff := cmp.Diff([]string{"ns/a@5"}, list.What); err != nil || diff != "" || len(list.Errs) != 1 || m.ResourceVersion != "9" {
		t.Errorf("list: error %v, metadata %v, set aside %v (-want +got):\n%s", err, m, list.Errs, diff)
	}

	got, err := watchAll(t.Context(), source(200, frame("ADDED", object("PartialObjectMetadata", &a))+
		frame("MODIFIED", object("PartialObjectMetadata", &unnamed))+
		frame("BOOKMARK", object("PartialObjectMetadata", &unnamed))+
		frame("ERROR", object("Status", &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonExpired, Code: 410}))), metav1.ListOptions{})
	want := []string{"ADDED ns/a@5 end=false", "MODIFIED ns/@6 end=false", "BOOKMARK /@6 end=false"}
	if diff := cmp.Diff(want, got.What); !apierrors.IsResourceExpired(err) || diff != "" || len(got.Errs) != 1 {
		t.Errorf("watch: error %v, set aside %v (-want +got):\n%s", err, got.Errs, diff)
	}

	_, _, err = rig.ListAll(t.Context(), source(403, string(object("Status", &metav1.Status{Status: "Failure", Reason: metav1.StatusReasonForbidden, Message: "no"}))), metav1.ListOptions{})
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
