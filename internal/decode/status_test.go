package decode

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A body that is a whole Status is one, in each encoding.
func TestWholeStatus(t *testing.T) {
	whole := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: "m", Code: 409}
	wire, other, cbor := string(messageFor(t, "Status", "v1", whole)), string(messageFor(t, "Pod", "v1", whole)), string(mustCBOR(t, whole))
	for enc, bodies := range map[Encoding]map[string]bool{
		JSON:     {`{"kind":"Status","status":"Failure","message":"m","code":409}`: true, `{"kind":"Pod","message":"m"}`: false, `{"kind":"Status"`: false, `[]`: false},
		Protobuf: {wire: true, other: false, wire[:len(wire)-3]: false, wire[:3]: false, "k9s" + wire[3:]: false},
		CBOR:     {cbor: true, cbor[:len(cbor)-3]: false, cbor[:3]: false, string(cborOfJSON(t, `{"kind":"Pod"}`)): false, "\xf7": false, "<html>": false, "": false},
	} {
		for data, want := range bodies {
			if s, ok := Status([]byte(data), enc); ok != want || ok && (s.Message != "m" || s.Code != 409) {
				t.Errorf("encoding %d, %q: %+v, %v", enc, data, s, ok)
			}
		}
	}
}
