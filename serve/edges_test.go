package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve"
)

// Bytes that are no object are refused, by an error that names the field, and what is taken from
// others is as encoding/json has it.
func TestObjectBytes(t *testing.T) {
	for _, tt := range []struct{ data, want, err string }{
		{`{"metadata":{"name":"a","namespace":"é"}}`, "é/a", ""},
		{"{\"metadata\":{\"name\":\"a\xff\"}}", "/a\ufffd", ""},
		{`{"metadata":{"name":"\u0061\n"}}`, "/a\n", ""},
		{` { "metadata" : { "labels" : {} , "name" : "b" } } `, "/b", ""},
		{`{"metadata":{"name":"a"}`, "/a", ""}, // the decoder of the list has found its end
		{`{"metadata":{"name":null}}`, "/", ""},
		{"{\"metadata\":{\"name\":\"a\x01\"}}", "", "metadata"},
		{`{"metadata":null}`, "", "not a JSON object"},
		{`[]`, "", "JSON"},
		{``, "", "JSON"},
		{`{"metadata":{"name":"a" "b"}}`, "", "not a JSON object"},
		{`{}`, "", "without metadata"},
		{`{"metadata":{"name":5}}`, "", "metadata.name"},
		{`{"metadata":{"namespace":[]}}`, "", "metadata.namespace"},
		{`{"metadata":{"uid":{}}}`, "", "metadata.uid"},
		{`{"metadata":{"resourceVersion":7}}`, "", "metadata.resourceVersion"},
		{`{"metadata":{"labels":{"a":1}}}`, "", "metadata.labels"},
		{`{"metadata":[]}`, "", "not a JSON object"},
	} {
		var o serve.Object
		if err := o.UnmarshalJSON([]byte(tt.data)); !rig.Matches(err, tt.err) {
			t.Errorf("%s: %v, want %q", tt.data, err, tt.err)
		} else if got := o.Namespace + "/" + o.Name; err == nil && got != tt.want {
			t.Errorf("%s: %q, want %q", tt.data, got, tt.want)
		}
	}
	data := []byte(`{"metadata":{"name":"a","labels":{"b":"c"}}}`)
	var o serve.Object
	noErr(t, o.UnmarshalJSON(data))
	clear(data) // its owner may use it again
	if got, _ := o.Bytes(); string(got) != `{"metadata":{"name":"a","labels":{"b":"c"}}}` || o.Name != "a" ||
		o.Labels["b"] != "c" {
		t.Errorf("%s %+v", got, o)
	}
	for _, data := range []string{"\x10", "\x0a", "\x0a\x05a", "\x0b", "\x0f", "\x09\x01", "\x0d\x01", "\xff", "\x12\xff",
		"\x0a\x02\x0a\x05"} {
		if err := new(serve.Object).Unmarshal([]byte(data)); err == nil {
			t.Errorf("%q is a message", data)
		}
	}
}

// A field of an Object is what a field selector compares.
func TestFieldOfAnObject(t *testing.T) {
	var o serve.Object
	noErr(t, o.UnmarshalJSON([]byte(`{"metadata":{"name":"a"},"s":"x","e":"\u0041","n":5,"t":true,"z":null,"l":[1, 2],"o":{"p":{"q":"deep"},"z":null},"":"empty"}`)))
	for path, want := range map[string]string{
		"s": "x", "e": "A", "n": "5", "t": "true", "z": "", "l": "[1, 2]", "o.p.q": "deep", "o.z": "", "o.z.q": "",
		"o.p":  `{"q":"deep"}`,
		"none": "", "o.none": "", "s.x": "", "n.x": "", "o.p.q.r": "", "metadata.name": "a", "": "empty", "q": "",
	} {
		if got := serve.Field(path)(&o); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// A collection has a name, a kind and a version of its own, and errors name what is wrong.
func TestServeRefuses(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		ctx := b.ctx
		b.memory(lw.NewMemory[*Widget](), widgets)
		for what, err := range map[string]error{
			"a Kind": serve.ServeMemory(ctx, b.h, lw.NewMemory[plain](), serve.Resource[plain]{Name: "things"}),
			"Kind": serve.Serve(ctx, b.h, lw.NewInformer[*serve.Object](serve.Raw("http://none", nil), nil),
				serve.Resource[*serve.Object]{Name: "things"}),
			"Widget": serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), serve.Resource[*Widget]{Group: "example.io",
				Name: "gadgets"}),
			"widgets": serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), serve.Resource[*Widget]{Group: "example.io",
				Name: "widgets", Kind: "Gadget"}),
			"Name":    serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), serve.Resource[*Widget]{Name: "a/b"}),
			"already": serve.ServeMemory(ctx, b.h, lw.NewMemory[*Widget](), widgets),
		} {
			if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want one of %s", err, what)
			}
		}
		for want, r := range map[string]serve.Resource[*Widget]{
			"without a Name": {Kind: "Widget"},
			"lower case":     {Name: "Widgets"},
			"Replica":        {Name: "widgets", Replica: 1024},
			"no function":    {Name: "widgets", Fields: map[string]func(*Widget) string{"a": nil}},
			"a Column":       {Name: "widgets", Columns: []serve.Column[*Widget]{{Name: "X"}}},
		} {
			if err := serve.ServeMemory(ctx, serve.New(nil), lw.NewMemory[*Widget](), r); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		for _, r := range []serve.Resource[*Widget]{{Group: "example.io", Name: "widgets", Version: "v2"},
			{Group: "other.io", Name: "widgets"}, {Name: "widgets"}} {
			b.memory(lw.NewMemory(newWidget(name("of."+r.Group), 1)), r)
		}
		b.answers(http.StatusOK, `"name":"of.other.io"`, "GET", "/apis/other.io/v1/widgets", "")
		for path, want := range map[string]int{
			"/openapi/v3/": 200, "/openapi/v3/api/v1/": 200, "/apis/example.io/v1/widgets//x": 404,
			"/apis/example.io/v1//widgets": 404,
			"/apis/example.io/v3/widgets":  404, "/apis/example.io/widgets": 404, "/api/v1/widgets/": 200,
		} {
			b.answers(want, "", "GET", path, "")
		}
	})
}

// WaitForSync waits for what is served when it is called, also if some of that ends meanwhile.
func TestWaitForSyncOfMany(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		src := lw.NewMemory(newWidget(name("a"), 1))
		src.Fail(errors.New("away"))
		b.relay(src, widgets)
		ctx, cancel := context.WithCancel(b.ctx)
		for i, name := range []string{"bs", "cs"} {
			run := b.ctx
			if i == 0 {
				run = ctx
			}
			go func() {
				_ = serve.ServeMemory(run, b.h, lw.NewMemory[*Widget](), serve.Resource[*Widget]{Name: name, Kind: name})
			}()
			synctest.Wait()
		}
		synced := make(chan error, 1)
		go func() { synced <- b.h.WaitForSync(b.ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if len(synced) > 0 {
			t.Fatalf("WaitForSync has returned %v", <-synced)
		}
		src.Fail(nil)
		noErr(t, <-synced)
	})
}

// An object with another UID is another object: clients are told of the end of the old one.
func TestAnotherUID(t *testing.T) {
	for _, tt := range []struct {
		was, is types.UID
		want    []string
	}{
		{"u", "u", []string{"MODIFIED a 7"}},
		{"u", "v", []string{"DELETED a 7", "ADDED a 7"}},
	} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			first, second := at("a", "5", 1), at("a", "7", 2)
			first.UID, second.UID = tt.was, tt.is
			s := &scripted{"6", []*Widget{first}, make(chan lw.WatchEvent[*Widget])}
			b.scripted(s, widgets)
			w := b.watch("resourceVersion=6")
			s.events <- lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: "7", Object: second}
			w.want(t, tt.want...)
		})
	}
}

// The error of an encoding is the program's own, also where the versions are made here.
func TestEncodeOfDerivedFails(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		r := widgets
		r.Encode = func(w *Widget) ([]byte, error) {
			if w.Size == 1 {
				return []byte(`{`), errors.New("no encoding")
			}
			return json.Marshal(w)
		}
		m := lw.NewMemory(newWidget(name("a"), 1), newWidget(name("b"), 2))
		collected(b, derived(b, m, func(w *Widget) *Widget { return newWidget(lw.KeyOf(w), w.Size) }), r)
		b.answers(http.StatusInternalServerError, "no encoding", "GET", oneWidget, "")
		b.answers(http.StatusOK, `"size":2`, "GET", strings.TrimSuffix(oneWidget, "a")+"b", "")
	})
}

// What Encode sends without metadata has some where metadata is asked for.
func TestEncodeWithoutMetadata(t *testing.T) {
	for _, sent := range []string{`{}`, `{"metadata":null}`, `{"size":1,"metadata":"x"}`} {
		inBubble(t, serve.Options{}, func(b *bubble) {
			r := widgets
			r.Encode = func(*Widget) ([]byte, error) { return []byte(sent), nil }
			b.memory(lw.NewMemory(newWidget(name("a"), 1)), r)
			one := read[metav1.PartialObjectMetadata](b, oneWidget, "Accept", "application/json"+asPartial)
			if one.Namespace != "n" || one.Name != "a" || one.ResourceVersion != "2" {
				t.Errorf("%s: %+v", sent, one)
			}
			table := read[metav1.Table](b, path, "Accept", asTable)
			if len(table.Rows) != 1 || !strings.Contains(string(table.Rows[0].Object.Raw), `"name":"a"`) {
				t.Errorf("%s: %+v", sent, table)
			}
			b.answers(http.StatusOK, "\x0a\x01a", "GET", path, "", "Accept", proto+asPartialList)
		})
	}
}

// A function that says what selectors see of an object may panic: for that object alone. Whoever
// would get it, or may have asked for it, gets an error; the others do not notice.
func TestFieldsPanic(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		at := func(n string, size int) *Widget { return newWidget(lw.Key{Namespace: n, Name: n}, size) }
		m := lw.NewMemory(at("a", 1), at("b", 2), at("c", 3))
		r := widgets
		r.Fields = map[string]func(*Widget) string{
			"size": func(w *Widget) string { return map[int]string{1: "one", 3: "three", 4: "four"}[w.Size] },
			"twin": func(w *Widget) string {
				if w.Size == 2 {
					panic("no twin")
				}
				return ""
			},
		}
		b.memory(m, r)
		for query, want := range map[string]int{
			path:                              500,
			in("a"):                           200,
			in("a") + "/a":                    200,
			in("b") + "/b":                    500,
			in("b"):                           500,
			in("c"):                           200,
			in("b") + "?fieldSelector=size=x": 500, // it may be x
			in("b") + "?fieldSelector=metadata.name=x":   200,
			in("b") + "?labelSelector=even=no":           200, // it is not
			in("b") + "?labelSelector=even=yes":          500,
			path + "?fieldSelector=metadata.name=a":      200,
			path + "?fieldSelector=metadata.namespace=a": 200,
			path + "?fieldSelector=size=one":             500,
			path + "?labelSelector=even=no":              200,
		} {
			if code, body := b.do("GET", query, ""); code != want || code == 500 && !strings.Contains(body, "panic") {
				t.Errorf("%s: %d, want %d: %.200s", query, code, want, body)
			}
		}
		healthy, sick := b.watch("fieldSelector=metadata.namespace=a&resourceVersion="+m.ResourceVersion()),
			b.watch("resourceVersion="+m.ResourceVersion())
		b.watch("resourceVersion=0").want(t, "ADDED a 2", "ERROR 500", "END")
		for _, s := range []*Widget{at("a", 2), at("a", 4)} {
			store(t, m.Update, s)
		}
		// Now it is sick, then it was.
		healthy.want(t, "ERROR 500", "END")
		sick.want(t, "ERROR 500", "END")
		noErr(t, second(m.Delete(t.Context(), lw.Key{Namespace: "b", Name: "b"}, "")))
		synctest.Wait()
		if code, body := b.do("GET", path+"?fieldSelector=size=four", ""); code != 200 ||
			strings.Count(body, `"namespace"`) != 1 {
			t.Errorf("when all are well again: %d %s", code, body)
		}
	})
}
