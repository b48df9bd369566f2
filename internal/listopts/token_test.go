package listopts_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts"
)

// TestTokenFormat pins that a token looks as a real server's does.
func TestTokenFormat(t *testing.T) {
	const want = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6ODQsInN0YXJ0IjoiYzJcdTAwMDAifQ" // {"v":"meta.k8s.io/v1","rv":84,"start":"c2\u0000"}
	if diff := cmp.Diff(want, listopts.After(84, "", "c2").Encode()); diff != "" {
		t.Errorf("token (-want +got):\n%s", diff)
	}
}

// TestTokenIsRelative checks that a token says nothing about the namespace of its request.
func TestTokenIsRelative(t *testing.T) {
	path := listopts.Path(types.NamespacedName{Namespace: "ns", Name: "a"})
	of := listopts.After(7, "ns", path)
	if diff := cmp.Diff(listopts.Token{Version: 7, Start: "a\x00"}, of); diff != "" {
		t.Errorf("token of a namespace (-want +got):\n%s", diff)
	}
	all := listopts.After(7, "", path)
	if diff := cmp.Diff(listopts.Token{Version: 7, Start: "ns/a\x00"}, all); diff != "" {
		t.Errorf("token of all namespaces (-want +got):\n%s", diff)
	}
	if of.From("ns") != path+"\x00" || all.From("") != path+"\x00" || of.From("other") != "other/a\x00" {
		t.Errorf("From: %q, %q, %q", of.From("ns"), all.From(""), of.From("other"))
	}
	if got := listopts.After(7, "", listopts.Path(types.NamespacedName{Name: "node"})); got.Start != "node\x00" {
		t.Errorf("token of an object without a namespace: %q", got.Start)
	}
}

// TestForgedTokens sends what no server has made. The answers are those of kube-apiserver.
func TestForgedTokens(t *testing.T) {
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for token, want := range map[string]listopts.Token{
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"a"}`):          {Version: 5, Start: "a"},
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"/a/b\u0000"}`): {Version: 5, Start: "a/b\x00"},
		encode(`{"v":"meta.k8s.io/v1","rv":-7,"start":"a","x":1}`):   {Version: listopts.Inconsistent, Start: "a"},
	} {
		got, err := listopts.DecodeToken(token)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", token, err, diff)
		}
	}
	for _, token := range []string{
		"", "x", "%", encode(""), encode("{}"), encode("[]"),
		encode(`{"v":"meta.k8s.io/v2","rv":5,"start":"a"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"/"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"../secrets/a"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"a//b"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"a/"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":99999999999999999999,"start":"a"}`),
		base64.StdEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":5,"start":"abc"}`)),
	} {
		if got, err := listopts.DecodeToken(token); !apierrors.IsBadRequest(err) {
			t.Errorf("DecodeToken(%q) = %+v, %v; want BadRequest", token, got, err)
		}
	}
}

func TestContinued(t *testing.T) {
	token := listopts.Token{Version: 5, Start: "a"}
	for _, rv := range []string{"", "0"} {
		got, err := listopts.Continued(metav1.ListOptions{Continue: token.Encode(), ResourceVersion: rv})
		if diff := cmp.Diff(token, got); err != nil || diff != "" {
			t.Errorf("with version %q: %v (-want +got):\n%s", rv, err, diff)
		}
	}
	_, err := listopts.Continued(metav1.ListOptions{Continue: token.Encode(), ResourceVersion: "5"})
	if want := "specifying resource version is not allowed when using continue"; !apierrors.IsBadRequest(err) || err.Error() != want {
		t.Errorf("with a version: %v, want %s", err, want)
	}
}

// FuzzToken checks that what is decoded of a request's token encodes to a token of the same meaning.
func FuzzToken(f *testing.F) {
	f.Add(listopts.After(84, "ns", "ns/c2").Encode())
	f.Add(listopts.Token{Version: listopts.Inconsistent, Start: "ns/a\x00"}.Encode())
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":-2,"start":"/\ud800/a"}`)))
	f.Fuzz(func(t *testing.T, s string) {
		token, err := listopts.DecodeToken(s)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("%q: %v is no BadRequest", s, err)
			}
			return
		}
		if token.Version == 0 || token.Version < listopts.Inconsistent || token.Start == "" {
			t.Fatalf("%q is %+v", s, token)
		}
		again, err := listopts.DecodeToken(token.Encode())
		if diff := cmp.Diff(token, again); err != nil || diff != "" {
			t.Fatalf("%q: %v (-want +got):\n%s", s, err, diff)
		}
	})
}

func TestErrors(t *testing.T) {
	type answer struct {
		Code       int32
		Reason     metav1.StatusReason
		Message    string
		RetryAfter int
		TooLarge   bool
	}
	for _, tt := range []struct {
		err  error
		want answer
	}{
		{listopts.TooOld(5, 9), answer{410, metav1.StatusReasonExpired, "too old resource version: 5 (9)", 0, false}},
		{listopts.TooLarge(9, 5), answer{504, metav1.StatusReasonTimeout, "Timeout: Too large resource version: 9, current: 5", 1, true}},
		{listopts.WithoutReason(apierrors.NewBadRequest("x")), answer{500, metav1.StatusReasonUnknown, "x", 0, false}},
	} {
		status := tt.err.(apierrors.APIStatus).Status()
		delay, _ := apierrors.SuggestsClientDelay(tt.err)
		got := answer{status.Code, status.Reason, status.Message, delay, apierrors.HasStatusCause(tt.err, metav1.CauseTypeResourceVersionTooLarge)}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	err := listopts.ExpiredToken("ns/a\x00")
	status := err.(apierrors.APIStatus).Status()
	token, decodeErr := listopts.DecodeToken(status.Continue)
	if diff := cmp.Diff(listopts.Token{Version: listopts.Inconsistent, Start: "ns/a\x00"}, token); diff != "" || decodeErr != nil || status.Code != 410 {
		t.Errorf("ExpiredToken: %d, %v, token (-want +got):\n%s", status.Code, decodeErr, diff)
	}
	if err := listopts.InvalidOptions(nil); err != nil {
		t.Errorf("InvalidOptions of nothing: %v", err)
	}
}
