package listopts_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/listopts/shard"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A pod is an object with one field.
type pod struct {
	namespace, name, node string
	labels                map[string]string
}

func (p *pod) field(name string) string {
	if name == "spec.nodeName" {
		return p.node
	}
	return ""
}

func (p *pod) object() listopts.Object {
	return listopts.Object{Namespace: p.namespace, Name: p.name, UID: "u", Labels: p.labels}
}

func known(field string) bool { return field == "spec.nodeName" }

func TestFilter(t *testing.T) {
	pods := []pod{
		{"ns", "a", "n1", map[string]string{"app": "x"}},
		{"ns", "b", "n2", nil},
		{"other", "a", "n2", map[string]string{"app": "y"}},
	}
	type options = metav1.ListOptions
	one := shard.Selector{Field: shard.UID, Ranges: []shard.Range{{First: shard.Hash("u"), Last: shard.Hash("u")}}}
	none := shard.Selector{Field: shard.Namespace, Ranges: []shard.Range{{First: 0, Last: 0}}}
	for _, tt := range []struct {
		name, namespace            string
		opts                       options
		want                       string
		selects                    bool
		exactName, exactNamespaces string
	}{
		{name: "all", want: "ns/a ns/b other/a"},
		{name: "namespace", namespace: "ns", want: "ns/a ns/b", exactNamespaces: "ns"},
		{name: "label", opts: options{LabelSelector: "app=x"}, want: "ns/a", selects: true},
		{name: "no label", opts: options{LabelSelector: "!app"}, want: "ns/b", selects: true},
		{name: "field", opts: options{FieldSelector: "spec.nodeName=n2"}, want: "ns/b other/a", selects: true},
		{name: "not field", opts: options{FieldSelector: "spec.nodeName!=n2"}, want: "ns/a", selects: true},
		{name: "name", opts: options{FieldSelector: "metadata.name==a"}, want: "ns/a other/a", selects: true, exactName: "a"},
		{
			name: "key", opts: options{FieldSelector: "metadata.namespace=ns,metadata.name=a"},
			want: "ns/a", selects: true, exactName: "a", exactNamespaces: "ns",
		},
		{name: "not name", opts: options{FieldSelector: "metadata.name!=a"}, want: "ns/b", selects: true},
		{name: "two names", opts: options{FieldSelector: "metadata.name=a,metadata.name=b"}, selects: true, exactName: "a"},
		{
			name: "another namespace", namespace: "ns", opts: options{FieldSelector: "metadata.namespace=other"},
			selects: true, exactNamespaces: "ns",
		},
		{name: "no name", opts: options{FieldSelector: "metadata.name="}, selects: true},
		{name: "one of many", opts: options{LabelSelector: "app", FieldSelector: "spec.nodeName=n2"}, want: "other/a",
			selects: true},
		{name: "empty field selector", opts: options{FieldSelector: ","}, want: "ns/a ns/b other/a"},
		{name: "empty label selector", opts: options{LabelSelector: " "}, want: "ns/a ns/b other/a"},
		{name: "shard", opts: options{ShardSelector: one.String()}, want: "ns/a ns/b other/a", selects: true},
		{name: "empty shard", opts: options{ShardSelector: none.String()}, selects: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := rig.Must[*listopts.Filter](t)(listopts.NewFilter(tt.namespace, tt.opts, known))
			var got []string
			for i := range pods {
				if f.Matches(pods[i].object(), pods[i].field) {
					got = append(got, pods[i].namespace+"/"+pods[i].name)
				}
			}
			rig.Same(t, "selected", tt.want, strings.Join(got, " "))
			if f.Selects() != tt.selects || f.Name() != tt.exactName || f.Namespace() != tt.exactNamespaces {
				t.Errorf("Selects, Name, Namespace = %v, %q, %q; want %v, %q, %q",
					f.Selects(), f.Name(), f.Namespace(), tt.selects, tt.exactName, tt.exactNamespaces)
			}
			var echo *metav1.ShardInfo
			if s := tt.opts.ShardSelector; s != "" {
				echo = &metav1.ShardInfo{Selector: s}
			}
			rig.Same(t, "Shard", echo, f.Shard())
		})
	}
}

func TestFilterErrors(t *testing.T) {
	for _, tt := range []struct {
		opts metav1.ListOptions
		code int32
		want string
	}{
		{metav1.ListOptions{LabelSelector: "a in"}, 400, "unable to parse requirement: found ''"},
		{metav1.ListOptions{FieldSelector: "a"}, 400, "invalid selector: 'a'"},
		{metav1.ListOptions{FieldSelector: "spec.size=1"}, 400, "field label not supported: spec.size"},
		{metav1.ListOptions{ShardSelector: "a"}, 400, "invalid shard selector"},
	} {
		_, err := listopts.NewFilter("", tt.opts, known)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %d %s", tt.opts, err, tt.code, tt.want)
		}
	}
	if _, err := listopts.NewFilter("", metav1.ListOptions{FieldSelector: "spec.nodeName=x"},
		nil); !apierrors.IsBadRequest(err) {
		t.Errorf("without known fields: %v, want BadRequest", err)
	}
}

// TestMatchAllocates checks that a match costs no allocation, because every watch matches every
// event.
func TestMatchAllocates(t *testing.T) {
	f := rig.Must[*listopts.Filter](t)(listopts.NewFilter("ns", metav1.ListOptions{
		LabelSelector: "app=x,tier!=y,app in (x,z)", FieldSelector: "spec.nodeName=n1,metadata.name!=b",
		ShardSelector: (&shard.Selector{Field: shard.UID, Ranges: []shard.Range{shard.Part(0, 1)}}).String(),
	}, known))
	p := &pod{"ns", "a", "n1", map[string]string{"app": "x"}}
	matches := true
	n := testing.AllocsPerRun(100, func() { matches = matches && f.Matches(p.object(), p.field) })
	if n != 0 || !matches {
		t.Errorf("a match: %v, %v allocations; want true and none", matches, n)
	}
}

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
	for _, text := range []string{"x", "-1", "+1", "01", "00", " 1", "1 ", "1_0", "0x1", "18446744073709551616",
		strings.Repeat("9", 30)} {
		if got, err := listopts.ParseVersion(text); err == nil {
			t.Errorf("ParseVersion(%q) = %d, want an error", text, got)
		}
	}
}

func TestParse(t *testing.T) {
	parse := func(query string) (metav1.ListOptions, error) {
		return listopts.Parse(rig.Must[url.Values](t)(url.ParseQuery(query)))
	}
	for query, want := range map[string]metav1.ListOptions{
		"labelSelector=a%3Db&fieldSelector=c%3Dd&shardSelector=e&resourceVersion=1&resourceVersionMatch=Exact&continue=f" +
			"&watch=1&allowWatchBookmarks=true&sendInitialEvents=false&timeoutSeconds=2&limit=3": {
			LabelSelector: "a=b", FieldSelector: "c=d", ShardSelector: "e", ResourceVersion: "1",
			ResourceVersionMatch: metav1.ResourceVersionMatchExact, Continue: "f", Watch: true, AllowWatchBookmarks: true,
			SendInitialEvents: new(false), TimeoutSeconds: new(int64(2)), Limit: 3,
		},
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
		rig.Same(t, query, want, rig.Must[metav1.ListOptions](t)(parse(query)))
	}
	for query, want := range map[string]string{
		"watch=1&limit=x":         `strconv.ParseInt: parsing "x": invalid syntax`,
		"watch=1&limit=":          `strconv.ParseInt: parsing "": invalid syntax`,
		"watch=1&timeoutSeconds=": `strconv.ParseInt: parsing "": invalid syntax`,
		"watch=1&limit=1e3":       `strconv.ParseInt: parsing "1e3": invalid syntax`,
	} {
		got, err := parse(query)
		if !apierrors.IsBadRequest(err) || err.Error() != want {
			t.Errorf("Parse(%s): %v, want %s", query, err, want)
		}
		rig.Same(t, fmt.Sprintf("Parse(%s) with its error", query), metav1.ListOptions{Watch: true}, got)
	}
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
		rig.Same(t, query, want, got)
		checkValidation(t, got)
		again := rig.Must[url.Values](t)(metav1.ParameterCodec.EncodeParameters(&got, metav1.SchemeGroupVersion))
		rig.Same(t, query+" as "+again.Encode(), got, rig.Must[metav1.ListOptions](t)(listopts.Parse(again)))
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
		rig.Same(t, fmt.Sprintf("watch %v, %+v", watch, opts), want, got)
	}
}

// TestValidation goes through all combinations of the options that depend on each other.
func TestValidation(t *testing.T) {
	for _, rv := range []string{"", "0", "5"} {
		for _, match := range []metav1.ResourceVersionMatch{"", metav1.ResourceVersionMatchExact,
			metav1.ResourceVersionMatchNotOlderThan, "x"} {
			for _, send := range []*bool{nil, new(false), new(true)} {
				for _, token := range []string{"", "x"} {
					checkValidation(t, metav1.ListOptions{ResourceVersion: rv, ResourceVersionMatch: match, SendInitialEvents: send,
						Continue: token})
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
		{metav1.ListOptions{ResourceVersion: "5", Limit: 2, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
			false, 2},
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
		rig.Same(t, token, want, rig.Must[listopts.Token](t)(listopts.DecodeToken(token)))
	}
	for _, token := range []string{
		"", "x", "%", encode(""), encode("{}"), encode("[]"),
		encode(`{"v":"meta.k8s.io/v2","rv":5,"start":"a"}`), encode(`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`),
		encode(`{"v":"meta.k8s.io/v1","rv":5}`), encode(`{"v":"meta.k8s.io/v1","rv":5,"start":"/"}`),
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
		opts := metav1.ListOptions{Continue: token.Encode(), ResourceVersion: rv}
		rig.Same(t, "with version "+rv, token, rig.Must[listopts.Token](t)(listopts.Continued(opts)))
	}
	_, err := listopts.Continued(metav1.ListOptions{Continue: token.Encode(), ResourceVersion: "5"})
	if want := "specifying resource version is not allowed when using continue"; !apierrors.IsBadRequest(err) ||
		err.Error() != want {
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
		rig.Same(t, s, token, rig.Must[listopts.Token](t)(listopts.DecodeToken(token.Encode())))
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
		{listopts.TooLarge(9, 5), answer{504, metav1.StatusReasonTimeout,
			"Timeout: Too large resource version: 9, current: 5", 1, true}},
		{listopts.WithoutReason(apierrors.NewBadRequest("x")), answer{500, metav1.StatusReasonUnknown, "x", 0, false}},
	} {
		status := tt.err.(apierrors.APIStatus).Status()
		delay, _ := apierrors.SuggestsClientDelay(tt.err)
		got := answer{status.Code, status.Reason, status.Message, delay, apierrors.HasStatusCause(tt.err,
			metav1.CauseTypeResourceVersionTooLarge)}
		rig.Same(t, tt.want.Message, tt.want, got)
	}
	status := listopts.ExpiredToken("ns/a\x00").(apierrors.APIStatus).Status()
	token := rig.Must[listopts.Token](t)(listopts.DecodeToken(status.Continue))
	rig.Same(t, "ExpiredToken", listopts.Token{Version: listopts.Inconsistent, Start: "ns/a\x00"}, token)
	rig.Same(t, "its code", 410, status.Code)
	if err := listopts.InvalidOptions(nil); err != nil {
		t.Errorf("InvalidOptions of nothing: %v", err)
	}
}
