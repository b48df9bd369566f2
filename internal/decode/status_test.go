package decode

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestWholeStatus(t *testing.T) {
	whole := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: "m", Code: 409}
	wire := append([]byte(magic), mustMarshal(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Status", APIVersion: "v1"}, Raw: mustMarshal(t, &whole)})...)
	other := append([]byte(magic), mustMarshal(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod", APIVersion: "v1"}, Raw: mustMarshal(t, &whole)})...)
	for data, want := range map[string]bool{
		string(wire): true, string(other): false, string(wire[:len(wire)-3]): false, string(wire[:3]): false, "k9s" + string(wire[3:]): false,
		`{"kind":"Status","status":"Failure","message":"m","code":409}`: true, `{"kind":"Pod","message":"m"}`: false, `{"kind":"Status"`: false, `[]`: false,
	} {
		enc := JSON
		if strings.HasPrefix(data, "k") {
			enc = Protobuf
		}
		s, ok := Status([]byte(data), enc)
		if ok != want || ok && (s.Message != "m" || s.Code != 409) {
			t.Errorf("%q: %+v, %v", data, s, ok)
		}
	}
}
