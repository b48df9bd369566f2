package http_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

const gadgetA = `{"kind":"Gadget","apiVersion":"lw.test/v1","metadata":{"namespace":"ns","name":"a","uid":"ua","resourceVersion":"5"},"spec":{"size":3}}`

func gadgetList(items string) string {
	return `{"kind":"GadgetList","apiVersion":"lw.test/v1","metadata":{"resourceVersion":"9","continue":"c","remainingItemCount":2},"items":[` + items + `]}`
}

// answering returns a source whose server gives one answer, and whether its body was closed.
func answering(body string) (src *lw.HTTP[*rig.Gadget], closed *bool) {
	c, _, closed := rig.Answer(200, rig.ContentType("application/json"), body)
	return &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c}, closed
}

// listed returns what a list of src yields, none of which may be bad.
func listed[T lw.Object](t *testing.T, src lw.Source[T]) (all []T) {
	t.Helper()
	_, err := src.List(t.Context(), metav1.ListOptions{}, func(obj T, err error) error {
		all = append(all, obj)
		return err
	})
	rig.OK(t, err)
	return all
}

// mustTell checks what a request has yielded, what it has set aside, and what it ended with.
func mustTell(t *testing.T, got rig.Yield, err error, closed *bool, want, aside []string, end string) {
	t.Helper()
	if !rig.Matches(err, end) {
		t.Errorf("error %v, want %q", err, end)
	}
	rig.Same(t, "objects or events", want, got.What)
	if len(got.Errs) != len(aside) {
		t.Fatalf("set aside %v, want %q", got.Errs, aside)
	}
	for i, want := range aside {
		if _, ok := errors.AsType[*lw.Error](got.Errs[i]); !ok || !rig.Matches(got.Errs[i], want) {
			t.Errorf("set aside %v, want %q", got.Errs[i], want)
		}
	}
	if !*closed {
		t.Error("the body is open")
	}
}

func watchAll[T lw.Object](ctx context.Context, src lw.Source[T], opts metav1.ListOptions) (rig.Yield, error) {
	var t rig.Yield
	err := src.Watch(ctx, opts, func(ev lw.WatchEvent[T]) error {
		if ev.Err != nil {
			t.Errs = append(t.Errs, ev.Err)
		}
		t.What = append(t.What, fmt.Sprintf("%s %v@%s end=%v", ev.Type, ev.Key(), ev.ResourceVersion, ev.InitialEventsEnd))
		return nil
	})
	return t, err
}

// fails returns what a list and a watch of src end with.
func fails[T lw.Object](t *testing.T, src lw.Source[T]) (list, watch error) {
	t.Helper()
	_, _, list = rig.ListAll(t.Context(), src, metav1.ListOptions{Limit: 7, Continue: "token"})
	_, watch = watchAll(t.Context(), src, metav1.ListOptions{ResourceVersion: "5"})
	return list, watch
}

func TestHTTPList(t *testing.T) {
	for name, tt := range map[string]struct {
		body    string
		want    []string
		errs    []string // substrings of what is set aside
		err     string   // a substring of List's error
		version string
	}{
		"a list": {body: gadgetList(gadgetA + "," + strings.ReplaceAll(gadgetA, `"a"`, `"b"`)),
			want: []string{"ns/a@5", "ns/b@5"}, version: "9"},
		"items before the kind": {
			body: `{"apiVersion":"lw.test/v1","items":[` + gadgetA + `],"kind":"GadgetList","metadata":{"resourceVersion":"9"}}`,
			want: []string{"ns/a@5"}, version: "9",
		},
		"no items":       {body: gadgetList(""), version: "9"},
		"null for items": {body: `{"kind":"GadgetList","metadata":{"resourceVersion":"9"},"items":null}`, version: "9"},
		"white space": {body: " { \"kind\" :\n\"GadgetList\" , \"items\" : [ " + gadgetA + " ] } \n",
			want: []string{"ns/a@5"}},
		"bad items": {
			body: gadgetList(`null,{"metadata":{"namespace":"ns","name":"bad"},"spec":{"size":"x"}},{"metadata":{"namespace":"ns"}},7,` + gadgetA),
			want: []string{"ns/a@5"}, version: "9",
			errs: []string{
				"lw: decode: at byte 133: null, want an object",
				"lw: decode ns/bad: spec.size: at byte ",
				"lw: decode ns/: the object has no name",
				"a number, want an object",
			},
		},
		"empty":          {body: ``, err: "cut off at byte 0: unexpected EOF"},
		"cut in an item": {body: gadgetList(gadgetA)[:200], err: "cut off at byte 200: unexpected EOF"},
		"cut after an item": {body: strings.TrimSuffix(gadgetList(gadgetA), "]}"), want: []string{"ns/a@5"},
			err: "unexpected EOF"},
		"cut before the end": {
			body: strings.TrimSuffix(gadgetList(gadgetA), "}"), want: []string{"ns/a@5"}, err: "unexpected EOF", version: "9",
		},
		"an item that is no JSON": {body: gadgetList(gadgetA + `,{"metadata":tru}`), want: []string{"ns/a@5"},
			err: "invalid JSON at byte"},
		"a comma too many": {body: gadgetList(gadgetA + `,`), want: []string{"ns/a@5"}, err: "invalid JSON at byte"},
		"text behind": {body: gadgetList(gadgetA) + "x", want: []string{"ns/a@5"},
			err: "'x' after the end of the list"},
		"no JSON":       {body: `<html>`, err: "invalid JSON at byte 0"},
		"no kind":       {body: `{"items":[]}`, err: "no list: it has no kind"},
		"an object":     {body: gadgetA, err: "no list: it is a Gadget"},
		"without items": {body: `{"kind":"GadgetList","metadata":{"resourceVersion":"9"}}`, version: "9"},
		"two items":     {body: `{"kind":"GadgetList","items":[],"items":[]}`, err: "two items"},
		"a Status": {body: `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone fishing","code":410}`,
			err: "gone fishing"},
		"a Table": {body: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}`, err: "a Table"},
	} {
		t.Run(name, func(t *testing.T) {
			src, closed := answering(tt.body)
			got, m, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
			mustTell(t, got, err, closed, tt.want, tt.errs, tt.err)
			if _, api := errors.AsType[*apierrors.StatusError](err); err != nil && !api && !strings.HasPrefix(err.Error(),
				"lw: HTTP: ") {
				t.Errorf("error %v has no prefix", err)
			}
			if err == nil && m.ResourceVersion != tt.version {
				t.Errorf("resource version %q, want %q", m.ResourceVersion, tt.version)
			}
		})
	}
}

func TestHTTPListMeta(t *testing.T) {
	src, _ := answering(gadgetList(gadgetA))
	two := int64(2)
	_, got, err := rig.ListAll(t.Context(), src, metav1.ListOptions{})
	rig.OK(t, err)
	rig.Same(t, "metadata", metav1.ListMeta{ResourceVersion: "9", Continue: "c", RemainingItemCount: &two}, got)
	want := &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "ua", ResourceVersion: "5"}}
	want.Spec.Size = 3
	rig.Same(t, "objects", []*rig.Gadget{want}, listed(t, src))
}

func TestHTTPWatch(t *testing.T) {
	event := func(typ, object string) string { return `{"type":"` + typ + `","object":` + object + "}\n" }
	bookmark := `{"kind":"Gadget","apiVersion":"lw.test/v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}`
	added := "ADDED ns/a@5 end=false"
	other := func(version string) string {
		return strings.NewReplacer(`"name":"a"`, `"name":"z"`, `"5"`, version).Replace(gadgetA)
	}
	for name, tt := range map[string]struct {
		body string
		want []string
		errs []string
		err  string
	}{
		"events": {
			body: event("ADDED", gadgetA) + event("MODIFIED", gadgetA) + event("DELETED", gadgetA) + event("BOOKMARK", bookmark),
			want: []string{added, "MODIFIED ns/a@5 end=false", "DELETED ns/a@5 end=false", "BOOKMARK /@7 end=true"},
		},
		"none": {},
		"objects that nobody wants": {
			body: event("ADDED", other(`"4"`)) + event("ADDED", gadgetA) + event("MODIFIED", other(`"6"`)) +
				event("DELETED", other(`"7"`)) + "<html>",
			want: []string{added, "BOOKMARK /@7 end=false"}, err: "invalid JSON at byte",
		},
		"objects of a streamed list that nobody wants": {
			body: event("ADDED", other(`"4"`)) + event("ADDED", gadgetA) + event("BOOKMARK", bookmark) +
				event("MODIFIED", other(`"8"`)),
			want: []string{"BOOKMARK /@ end=false", added, "BOOKMARK /@7 end=true", "BOOKMARK /@8 end=false"},
		},
		"the object first": {
			body: `{"object":` + gadgetA + `,"type":"ADDED"}{"object":` + bookmark + `, "more":[1], "type":"BOOKMARK"}`,
			want: []string{added, "BOOKMARK /@7 end=true"},
		},
		"a bookmark in the middle": {
			body: event("BOOKMARK", `{"metadata":{"resourceVersion":"8"}}`) + event("ADDED", gadgetA),
			want: []string{"BOOKMARK /@8 end=false", added},
		},
		"an object that does not fit": {
			body: event("ADDED", strings.ReplaceAll(gadgetA, "3", `[]`)) + event("ADDED", gadgetA),
			want: []string{added, added}, errs: []string{"lw: decode ns/a: spec.size: at byte"},
		},
		"null": {body: event("ADDED", "null") + event("ADDED", gadgetA),
			want: []string{"ADDED /@ end=false", added}, errs: []string{"null, want an object"}},
		"no name": {body: event("ADDED", `{"metadata":{"namespace":"ns","resourceVersion":"4"}}`),
			want: []string{"ADDED ns/@4 end=false"}, errs: []string{"no name"}},
		"no version": {body: event("ADDED", strings.ReplaceAll(gadgetA, `"5"`, `""`)),
			want: []string{"ADDED ns/a@ end=false"}},
		"an error": {
			body: event("ADDED", gadgetA) + event("ERROR",
				`{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}`) + event("ADDED", gadgetA),
			want: []string{added}, err: "too old",
		},
		"an error without a status": {body: event("ERROR", `{"a":1}`),
			err: `an ERROR event without a Status: "{\"a\":1}"`},
		"an unknown type":              {body: event("WEIRD", gadgetA), err: `an event of unknown type "WEIRD"`},
		"no type":                      {body: `{"object":` + gadgetA + `}`, err: `an event of unknown type ""`},
		"no object":                    {body: `{"type":"ADDED"}`, err: `an event "ADDED" without an object`},
		"a Status in place of a frame": {body: `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"message":"too old"}`, err: "too old"},
		"another kind": {
			body: event("ADDED", gadgetA) + event("ADDED", strings.ReplaceAll(gadgetA, "Gadget", "Widget")),
			want: []string{added},
			err:  "want Gadget (the kind of *rig.Gadget; set HTTP.Kind if it is called otherwise), got Widget",
		},
		"a Table": {body: event("ADDED", `{"kind":"Table","apiVersion":"meta.k8s.io/v1"}`),
			err: "a Table in the place of an object"},
		"a Status": {body: event("ADDED", `{"kind":"Status","apiVersion":"v1"}`),
			err: "a Status in the place of an object"},
		"cut in an object": {body: (event("ADDED", gadgetA) + event("ADDED", gadgetA))[:250], want: []string{added},
			err: "unexpected EOF"},
		"no JSON":             {body: event("ADDED", gadgetA) + "<html>", want: []string{added}, err: "invalid JSON at byte"},
		"an object no JSON":   {body: event("ADDED", `{"metadata":{"name":nul}}`), err: "invalid JSON at byte 45"},
		"a mismatch, no JSON": {body: event("ADDED", `{"metadata":[],"spec":nul}`), err: "invalid JSON at byte"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, closed := rig.Answer(200, rig.ContentType("application/json;stream=watch"), tt.body)
			ctx := request.WithWanted(t.Context(), func(_, name string) bool { return name != "z" })
			opts := metav1.ListOptions{SendInitialEvents: new(strings.Contains(name, "streamed"))}
			got, err := watchAll(ctx, &lw.HTTP[*rig.Gadget]{URL: "http://server/gadgets", Client: c}, opts)
			mustTell(t, got, err, closed, tt.want, tt.errs, tt.err)
			if apierrors.IsResourceExpired(err) != (tt.err == "too old") {
				t.Errorf("error %#v: an error that is a status is the API's", err)
			}
		})
	}
}

func TestHTTPUnstructured(t *testing.T) {
	c, _, _ := rig.Answer(200, rig.ContentType("application/json"),
		`{"kind":"GadgetList","apiVersion":"lw.test/v1","items":[`+gadgetA+`,{"metadata":{"name":"bare"}}]}`)
	got := listed(t, &lw.HTTP[*unstructured.Unstructured]{URL: "http://server/", Client: c,
		Drop: []string{"spec.size", "metadata.uid"}})
	rig.Same(t, "objects", []*unstructured.Unstructured{
		{Object: map[string]any{"kind": "Gadget", "apiVersion": "lw.test/v1", "metadata": map[string]any{"namespace": "ns",
			"name": "a", "resourceVersion": "5"}, "spec": map[string]any{}}},
		{Object: map[string]any{"kind": "Gadget", "apiVersion": "lw.test/v1", "metadata": map[string]any{"name": "bare"}}},
	}, got)
}

func TestHTTPYieldStops(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	src, closed := answering(gadgetList(gadgetA + "," + gadgetA))
	_, err := src.List(t.Context(), metav1.ListOptions{}, func(*rig.Gadget, error) error { calls++; return stop })
	if err != stop || calls != 1 || !*closed {
		t.Errorf("list: error %v after %d calls, closed %v", err, calls, *closed)
	}
	src, closed = answering(`{"type":"ADDED","object":` + gadgetA + `}{"type":"ADDED","object":` + gadgetA + `}`)
	calls = 0
	err = src.Watch(t.Context(), metav1.ListOptions{}, func(lw.WatchEvent[*rig.Gadget]) error { calls++; return stop })
	if err != stop || calls != 1 || !*closed {
		t.Errorf("watch: error %v after %d calls, closed %v", err, calls, *closed)
	}
}

// A request may be made while another one is read: each has a decoder of its own.
func TestHTTPRequestWithinARequest(t *testing.T) {
	list := gadgetList(gadgetA + "," + strings.ReplaceAll(gadgetA, `"a"`, `"b"`))
	c := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return response(r, 200, rig.ContentType("application/json"), list), nil
	})}
	src := &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}
	var got []string
	_, err := src.List(t.Context(), metav1.ListOptions{}, func(outer *rig.Gadget, err error) error {
		got = append(got, outer.Name)
		_, inner := src.List(t.Context(), metav1.ListOptions{}, func(g *rig.Gadget, err error) error {
			got = append(got, outer.Name+g.Name)
			return err
		})
		return errors.Join(err, inner)
	})
	rig.OK(t, err)
	rig.Same(t, "names", []string{"a", "aa", "ab", "b", "ba", "bb"}, got)
}

// What a decoder has learned of a type is kept for the next request.
func TestHTTPKeepsItsDecoder(t *testing.T) {
	c := &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		return response(r, 200, rig.ContentType("application/json"), gadgetList(gadgetA)), nil
	})}
	list := func(src *lw.HTTP[*rig.Gadget]) {
		if _, err := src.List(t.Context(), metav1.ListOptions{}, func(*rig.Gadget, error) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	fresh := testing.AllocsPerRun(10, func() { list(&lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}) })
	kept := &lw.HTTP[*rig.Gadget]{URL: "http://server/", Client: c}
	again := testing.AllocsPerRun(10, func() { list(kept) })
	if again > fresh/2 {
		t.Errorf("a list takes %v allocations, of a new source %v", again, fresh)
	}
}

// With Share objects have their equal parts in common.
func TestHTTPShare(t *testing.T) {
	labelled := strings.ReplaceAll(gadgetA, `"namespace"`, `"labels":{"app":"web","tier":"the one in front"},"namespace"`)
	list := gadgetList(strings.Repeat(labelled+",", 3) + labelled) // what is seen for the second time is kept
	for _, share := range []bool{true, false} {
		src, _ := answering(list)
		src.Share = share
		got := listed(t, src)
		if len(got) != 4 || got[3].Labels["app"] != "web" {
			t.Fatalf("objects %v", got)
		}
		got[2].Labels["app"] = "changed"
		rig.Same(t, "the objects share their labels", share, got[3].Labels["app"] == "changed")
	}
}

// A source that has the next event at hand says so: the frames of one read but for the last.
func TestHTTPSaysMore(t *testing.T) {
	event := `{"type":"ADDED","object":` + gadgetA + "}\n"
	src, _ := answering(event + event + event)
	var more []bool
	err := src.Watch(t.Context(), metav1.ListOptions{}, func(ev lw.WatchEvent[*rig.Gadget]) error {
		more = append(more, ev.More)
		return nil
	})
	rig.OK(t, err)
	rig.Same(t, "More", []bool{true, true, false}, more)
}
