package serve_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

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
		healthy, sick := b.watch("fieldSelector=metadata.namespace=a&resourceVersion="+m.ResourceVersion()), b.watch("resourceVersion="+m.ResourceVersion())
		b.watch("resourceVersion=0").want(t, "ADDED a 2", "ERROR 500", "END")
		for _, s := range []*Widget{at("a", 2), at("a", 4)} {
			store(t, m.Update, s)
		}
		// Now it is sick, then it was.
		healthy.want(t, "ERROR 500", "END")
		sick.want(t, "ERROR 500", "END")
		noErr(t, second(m.Delete(t.Context(), lw.Key{Namespace: "b", Name: "b"}, "")))
		synctest.Wait()
		if code, body := b.do("GET", path+"?fieldSelector=size=four", ""); code != 200 || strings.Count(body, `"namespace"`) != 1 {
			t.Errorf("when all are well again: %d %s", code, body)
		}
	})
}

func in(namespace string) string { return "/apis/example.io/v1/namespaces/" + namespace + "/widgets" }

// A Validate that panics fails the write, and nothing is written.
func TestValidatePanics(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		r := widgets
		r.Validate = func(_ context.Context, obj, _ *Widget) error { panic("no judgement") }
		b.memory(m, r)
		b.answers(http.StatusInternalServerError, "no judgement", "POST", in("n"), `{"metadata":{"name":"a"}}`)
		if _, err := m.Get(t.Context(), name("a")); err == nil {
			t.Error("it was written")
		}
	})
}
