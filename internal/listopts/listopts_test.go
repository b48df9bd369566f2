package listopts_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/rig"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestVersion(t *testing.T) {
	for text, want := range map[string]uint64{"": 0, "0": 0, "1": 1, "18446744073709551615": 1<<64 - 1} {
		got, err := listopts.ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %d, %v; want %d", text, got, err, want)
		}
		if text != "" && listopts.FormatVersion(got) != text {
			t.Errorf("FormatVersion(%d) = %s, want %s", got, listopts.FormatVersion(got), text)
		}
	}
	for _, text := range []string{"x", "-1", "+1", "01", "00", " 1", "1 ", "1_0", "0x1", "18446744073709551616", strings.Repeat("9", 30)} {
		if got, err := listopts.ParseVersion(text); err == nil {
			t.Errorf("ParseVersion(%q) = %d, want an error", text, got)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := listopts.Parse(parseQuery(t, "labelSelector=a%3Db&fieldSelector=c%3Dd&shardSelector=e&resourceVersion=1"+
		"&resourceVersionMatch=Exact&continue=f&watch=1&allowWatchBookmarks=true&sendInitialEvents=false&timeoutSeconds=2&limit=3"))
	want := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "c=d", ShardSelector: "e", ResourceVersion: "1",
		ResourceVersionMatch: metav1.ResourceVersionMatchExact, Continue: "f", Watch: true, AllowWatchBookmarks: true,
		SendInitialEvents: new(false), TimeoutSeconds: new(int64(2)), Limit: 3,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Parse: %v, (-want +got):\n%s", err, diff)
	}
	for query, want := range map[string]metav1.ListOptions{
		"":                       {},
		"watch":                  {Watch: true},
		"watch=":                 {Watch: true},
		"watch=no":               {Watch: true},
		"watch=False":            {},
		"watch=0&watch=1":        {},
		"sendInitialEvents":      {SendInitialEvents: new(true)},
		"sendInitialEvents=0":    {SendInitialEvents: new(false)},
		"limit=-1":               {Limit: -1},
		"limit=4294967296":       {Limit: 1 << 32},
		"pretty=1&timeout=1m":    {},
		"resourceVersion=x":      {ResourceVersion: "x"},
		"resourceVersionMatch=x": {ResourceVersionMatch: "x"},
	} {
		got, err := listopts.Parse(parseQuery(t, query))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Parse(%s): %v, (-want +got):\n%s", query, err, diff)
		}
	}
	for query, want := range map[string]string{
		"watch=1&limit=x":         `invalid limit "x": not a decimal number`,
		"watch=1&limit=":          `invalid limit "": not a decimal number`,
		"watch=1&timeoutSeconds=": `invalid timeoutSeconds "": not a decimal number`,
		"watch=1&limit=1e3":       `invalid limit "1e3": not a decimal number`,
	} {
		got, err := listopts.Parse(parseQuery(t, query))
		if !apierrors.IsBadRequest(err) || err.Error() != want {
			t.Errorf("Parse(%s): %v, want %s", query, err, want)
		}
		rig.Same(t, fmt.Sprintf("Parse(%s) with its error", query), metav1.ListOptions{Watch: true}, got)
	}
}

func parseQuery(t *testing.T, query string) url.Values {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// FuzzParse compares Parse, ValidateList and ValidateWatch with what kube-apiserver does by
// apimachinery, and writes the options to a query again.
func FuzzParse(f *testing.F) {
	f.Add("watch=1&resourceVersion=5&allowWatchBookmarks&timeoutSeconds=300")
	f.Add("limit=500&continue=abc&labelSelector=a+in+(b)&fieldSelector=metadata.name%3Dx")
	f.Add("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=")
	f.Add("sendInitialEvents=FALSE&resourceVersionMatch=Exact&resourceVersion=0&continue=x")
	f.Add("limit=&timeoutSeconds=-1&limit=2&watch=0&watch=1")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		var want metav1.ListOptions
		wantErr := metav1.Convert_url_Values_To_v1_ListOptions(&values, &want, nil)
		got, err := listopts.Parse(values)
		if (wantErr != nil) != (err != nil) {
			t.Fatalf("%q: %v, apimachinery: %v", query, err, wantErr)
		}
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("%q: %v is no BadRequest", query, err)
			}
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-apimachinery +got):\n%s", query, diff)
		}
		checkValidation(t, got)
		again, err := metav1.ParameterCodec.EncodeParameters(&got, metav1.SchemeGroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		reread, err := listopts.Parse(again)
		if diff := cmp.Diff(got, reread); err != nil || diff != "" {
			t.Fatalf("%q as %q: %v (-want +got):\n%s", query, again.Encode(), err, diff)
		}
		// Nothing that a query may have makes a filter or a token panic.
		_, _ = listopts.NewFilter("", got, nil)
		_, _ = listopts.Continued(got)
	})
}

// checkValidation compares the validation of options with apimachinery's: the fields and the
// reasons, in their order. The texts are our own.
func checkValidation(t *testing.T, opts metav1.ListOptions) {
	for _, watch := range []bool{false, true} {
		internal := &internalversion.ListOptions{
			Watch: watch, ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
			Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents,
		}
		var want, got []string
		for _, e := range validation.ValidateListOptions(internal, true) {
			want = append(want, e.Field+" "+string(e.Type))
		}
		err := listopts.ValidateList(opts)
		if watch {
			err = listopts.ValidateWatch(opts)
		}
		if err != nil {
			status := err.(apierrors.APIStatus).Status()
			if status.Code != 422 || status.Reason != metav1.StatusReasonInvalid {
				t.Fatalf("%+v: %d %s, want 422 Invalid", opts, status.Code, status.Reason)
			}
			for _, cause := range status.Details.Causes {
				got = append(got, cause.Field+" "+string(cause.Type))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("watch %v, %+v (-apimachinery +got):\n%s", watch, opts, diff)
		}
	}
}

// TestValidation goes through all combinations of the options that depend on each other.
func TestValidation(t *testing.T) {
	for _, rv := range []string{"", "0", "5"} {
		for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan, "x"} {
			for _, send := range []*bool{nil, new(false), new(true)} {
				for _, token := range []string{"", "x"} {
					checkValidation(t, metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: match, SendInitialEvents: send, Continue: token})
				}
			}
		}
	}
}

func TestExactAndLimit(t *testing.T) {
	for _, tt := range []struct {
		opts  metav1.ListOptions
		exact bool
		limit int64
	}{
		{metav1.ListOptions{}, false, 0},
		{metav1.ListOptions{Limit: 2}, false, 2},
		{metav1.ListOptions{Limit: -2}, false, 0},
		{metav1.ListOptions{ResourceVersion: "0", Limit: 2}, false, 0},
		{metav1.ListOptions{ResourceVersion: "0", Limit: 2, Continue: "x"}, false, 2},
		{metav1.ListOptions{ResourceVersion: "5"}, false, 0},
		{metav1.ListOptions{ResourceVersion: "5", Limit: 2}, true, 2},
		{metav1.ListOptions{ResourceVersion: "5", Limit: 2, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, false, 2},
		{metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchExact}, true, 0},
	} {
		if got := listopts.Exact(tt.opts); got != tt.exact {
			t.Errorf("Exact(%+v) = %v, want %v", tt.opts, got, tt.exact)
		}
		if got := listopts.Limit(tt.opts); got != tt.limit {
			t.Errorf("Limit(%+v) = %d, want %d", tt.opts, got, tt.limit)
		}
	}
}

// TestTokenFormat pins that a token looks as a real server's does.
func TestTokenFormat(t *testing.T) {
	const want = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6ODQsInN0YXJ0IjoiYzJcdTAwMDAifQ" // {"v":"meta.k8s.io/v1","rv":84,"start":"c2\u0000"}
	rig.Same(t, "token", want, listopts.After(84, "", "c2").Encode())
}

// TestTokenIsRelative checks that a token says nothing about the namespace of its request.
func TestTokenIsRelative(t *testing.T) {
	path := listopts.Path(types.NamespacedName{Namespace: "ns", Name: "a"})
	of := listopts.After(7, "ns", path)
	rig.Same(t, "token of a namespace", listopts.Token{Version: 7, Start: "a\x00"}, of)
	all := listopts.After(7, "", path)
	rig.Same(t, "token of all namespaces", listopts.Token{Version: 7, Start: "ns/a\x00"}, all)
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

// FuzzToken checks that what is decoded of a request's token encodes to a token of the same
// meaning.
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
