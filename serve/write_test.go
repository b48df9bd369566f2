package serve_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Clients write into a Memory.
func TestWrites(t *testing.T) {
	r := widgets
	r.Validate = func(_ context.Context, w, old *Widget) error {
		switch {
		case w == nil && old.Size == 9:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "widgets"}, old.Name, errors.New("it stays"))
		case w != nil && w.Size < 0:
			return errors.New("a size below zero")
		}
		return nil
	}
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		b.memory(m, r)
		in := "/apis/example.io/v1/namespaces/n/widgets"
		w := b.watch("resourceVersion=1")
		for _, step := range []struct {
			method, path, body string
			code               int
			text               string // in the answer
		}{
			{"POST", in, `{"metadata":{"name":"a"},"size":1}`, 201, `"resourceVersion":"2"`},
			{"POST", in, `{"metadata":{"name":"a"},"size":1}`, 409, `widgets.example.io \"a\" already exists`},
			{"POST", in, `{"metadata":{},"size":1}`, 422, "name"},
			{"POST", in, `{"metadata":{"name":"b","namespace":"other"}}`, 400, "namespace"},
			{"POST", path, `{"metadata":{"name":"b"}}`, 405, "MethodNotAllowed"},
			{"POST", in, `{"kind":"Pod","metadata":{"name":"b"}}`, 400, "Pod"},
			{"POST", in, `{"metadata":{"name":"b"},"size":-1}`, 422, "below zero"},
			{"POST", in, `{"metadata":{"name":"b"},"size":"x"}`, 400, "size"},
			{"POST", in, `{`, 400, "JSON"},
			{"POST", in + "?dryRun=All", `{"metadata":{"name":"b"}}`, 201, `"name":"b"`},
			{"PUT", in + "/a", `{"metadata":{"name":"a"},"size":2}`, 200, `"size":2`},
			{"PUT", in + "/a", `{"metadata":{"name":"a","resourceVersion":"2"},"size":3}`, 409, `on widgets.example.io \"a\": the object has been modified`},
			{"PUT", in + "/a", `{"metadata":{"name":"a","uid":"u"},"size":3}`, 409, "UID"},
			{"PUT", in + "/a", `{"metadata":{"name":"b"},"size":3}`, 400, "name"},
			{"PUT", in + "/x", `{"metadata":{"name":"x"},"size":3}`, 404, `widgets.example.io \"x\" not found`},
			{"PUT", in + "/a", `{"metadata":{"name":"a","resourceVersion":"3"},"size":9}`, 200, `"resourceVersion":"4"`},
			{"PATCH", in + "/a", `{}`, 415, "UnsupportedMediaType"},
			// An update is of one object and a creation of a collection: other paths have other methods.
			{"PUT", in, `{"metadata":{"name":"a"},"size":5}`, 405, ""},
			{"PUT", path, `{"metadata":{"name":"a","namespace":"n"},"size":5}`, 405, ""},
			{"POST", in + "/b", `{"metadata":{"name":"b"},"size":5}`, 405, ""},
			{"PATCH", in, `{}`, 405, ""},
			{"PUT", in + "/a/s", `{"metadata":{"name":"a"},"size":5}`, 404, ""},
			{"POST", in + "/a/s", `{"metadata":{"name":"a"},"size":5}`, 404, ""},
			{"DELETE", path, ``, 405, "MethodNotAllowed"},
			{"DELETE", in + "/a", ``, 403, "it stays"},
			{"PUT", in + "/a", `{"metadata":{"name":"a"},"size":1}`, 200, `"resourceVersion":"5"`},
			{"DELETE", in + "/a", `{"preconditions":{"resourceVersion":"4"}}`, 409, "Conflict"},
			{"DELETE", in + "/a", `{"preconditions":{"uid":"u"}}`, 409, "Conflict"},
			{"DELETE", in + "/a", `{"preconditions":{"resourceVersion":"5"}}`, 200, "Success"},
			{"DELETE", in + "/a", ``, 404, `"details":{"name":"a","group":"example.io","kind":"widgets"}`},
			{"POST", in, `{"metadata":{"generateName":"g-"},"size":1}`, 201, `"name":"g-`},
		} {
			b.answers(step.code, step.text, step.method, step.path, step.body, "Content-Type", "application/json")
		}
		b.answers(http.StatusUnsupportedMediaType, "", "POST", in, "{}", "Content-Type", "application/json; charset")
		b.answers(http.StatusUnprocessableEntity, "", "POST", in, "a: b", "Content-Type", "application/yaml")
		b.answers(http.StatusRequestEntityTooLarge, "", "POST", in, strings.Repeat(" ", 4<<20), "Content-Type", "application/json")
		got := w.take()
		if diff := cmp.Diff([]string{"ADDED a 2", "MODIFIED a 3", "MODIFIED a 4", "MODIFIED a 5", "DELETED a 6"}, got[:5]); diff != "" || len(got) != 6 {
			b.t.Errorf("%s%v", diff, got)
		}
		w.cancel()
	})
}
