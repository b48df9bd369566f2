package listopts_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
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
		if diff := cmp.Diff(metav1.ListOptions{Watch: true}, got); diff != "" {
			t.Errorf("Parse(%s) with its error (-want +got):\n%s", query, diff)
		}
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
