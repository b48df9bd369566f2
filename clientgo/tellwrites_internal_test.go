package clientgo

import (
	"bytes"
	"cmp"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The answer of a write is an object, or a Status that says which object it was about.
func TestIdentify(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":`
	for data, want := range map[string]*request.Answer{
		`{"kind":"Pod","metadata":{"namespace":"n","name":"a","uid":"u","resourceVersion":"1","labels":{"a":"b"}}}`: {
			Kind: "Pod", Namespace: "n", Name: "a", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"},
		},
		status + `"Success","details":{"uid":"u"}}`: {Kind: "Status", UID: "u"},
		status + `"Success"}`:                       nil, status + `"Failure","details":{"uid":"u"}}`: nil, "{": nil,
	} {
		got, h := identify([]byte(data), decode.JSON)
		if (h != nil) != (want != nil && want.Kind != "Status") {
			t.Errorf("%s: the head is %+v", data, h)
		}
		if h != nil {
			rig.Same(t, "the data", data, string(got.Data))
			got.Data, got.JSON = nil, nil
			got.Encoding = want.Encoding
		}
		rig.Same(t, data, want, got)
	}
}

// The head of an answer is the same in every encoding and with either decoder.
func TestHeadOf(t *testing.T) {
	grace, marked := int64(30), metav1.NewTime(time.Unix(1700000000, 0))
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "a", UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": "b"},
			DeletionTimestamp: &marked, DeletionGracePeriodSeconds: &grace, Finalizers: []string{"example.com/f"},
			Annotations: map[string]string{"c": "d"},
		},
		Spec: corev1.PodSpec{NodeName: "node"},
	}
	want := &head{}
	m := &want.Metadata
	m.Namespace, m.Name, m.UID, m.ResourceVersion, m.Labels = "n", "a", "u", "1", map[string]string{"a": "b"}
	m.Marked, m.Grace, m.Finalizers = &marked, &grace, []string{"example.com/f"}
	s := scheme.Scheme
	asJSON := json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s, json.SerializerOptions{})
	before := headDecoders.New
	defer func() { headDecoders = sync.Pool{New: before} }()
	for _, decoder := range []string{"", "standard"} {
		t.Setenv(standard.Env, decoder)
		headDecoders = sync.Pool{New: before} // those of before are of another decoder
		for encoding, s := range map[decode.Encoding]runtime.Serializer{
			decode.JSON:     asJSON,
			decode.Protobuf: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme),
			decode.CBOR:     cbor.NewSerializer(scheme.Scheme, scheme.Scheme),
		} {
			name := cmp.Or(decoder, standard.LW) + ", " + []string{"JSON", "protobuf", "CBOR"}[encoding]
			var b bytes.Buffer
			rig.OK(t, s.Encode(pod, &b))
			got, kind := headOf(b.Bytes(), encoding)
			if diff := gocmp.Diff(want, got); diff != "" || kind != "Pod" {
				t.Errorf("%s: kind %q (-want +got):\n%s", name, kind, diff)
			}
			if got, _ := headOf(b.Bytes()[:b.Len()/4], encoding); got != nil {
				t.Errorf("%s: a head of a part: %+v", name, got)
			}
		}
	}
}
