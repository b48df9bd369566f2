package serve_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if diff := cmp.Diff([]string{"ADDED a 2", "MODIFIED a 3", "MODIFIED a 4", "MODIFIED a 5", "DELETED a 6"}, got[:5]); diff != "" {
			b.t.Error(diff)
		}
		w.cancel()
	})
}

// A collection is one name in one group and version, and errors name it.
func TestServeErrors(t *testing.T) {
	ctx := t.Context()
	for want, r := range map[string]serve.Resource[*Widget]{
		"without a Name": {Kind: "Widget"},
		"lower case":     {Name: "Widgets"},
		"Replica":        {Name: "widgets", Replica: 1024},
		"no function":    {Name: "widgets", Fields: map[string]func(*Widget) string{"a": nil}},
		"a Column":       {Name: "widgets", Columns: []serve.Column[*Widget]{{Name: "X"}}},
	} {
		if err := serve.ServeMemory(ctx, serve.New(nil), lw.NewMemory[*Widget](), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory[*Widget](), widgets)
		if err := serve.ServeMemory(b.ctx, b.h, lw.NewMemory[*Widget](), widgets); err == nil || !strings.Contains(err.Error(), "already") {
			b.t.Errorf("a second collection of a name: %v", err)
		}
	})
}

// Tables have the columns of the Resource.
func TestTable(t *testing.T) {
	r := widgets
	r.Columns = []serve.Column[*Widget]{{Name: "Size", Type: "integer", Value: func(w *Widget) serve.Cell { return serve.Int(w.Size) }}}
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 3)), r)
		table := read[metav1.Table](b, path, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		if len(table.ColumnDefinitions) != 3 || table.ColumnDefinitions[1].Name != "Size" || table.Kind != "Table" {
			b.t.Errorf("%+v", table.ColumnDefinitions)
		}
		if diff := cmp.Diff([]any{"a", 3.0, "<unknown>"}, table.Rows[0].Cells); diff != "" {
			b.t.Error(diff)
		}
		if !bytes.Contains(table.Rows[0].Object.Raw, []byte(`"kind":"PartialObjectMetadata"`)) {
			b.t.Errorf("%s", table.Rows[0].Object.Raw)
		}
	})
}

// A delete of an object that is changed meanwhile deletes what it is then, unless the client wants
// another version or another object.
func TestDeleteOfAChangedObject(t *testing.T) {
	for body, want := range map[string]int{
		"":                                    http.StatusOK,
		`{"preconditions":{"uid":"%s"}}`:      http.StatusOK,
		`{"preconditions":{"uid":"another"}}`: http.StatusConflict,
		`{"preconditions":{"resourceVersion":"2"}}`: http.StatusConflict,
	} {
		m := lw.NewMemory(newWidget(name("a"), 1))
		changed := false
		r := widgets
		r.Validate = func(_ context.Context, w, old *Widget) error {
			if !changed {
				changed = true
				if _, err := m.Update(t.Context(), newWidget(name("a"), 2)); err != nil {
					return err
				}
			}
			return nil
		}
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.memory(m, r)
			obj, _ := m.Get(t.Context(), name("a"))
			body = strings.ReplaceAll(body, "%s", string(obj.UID))
			code, answer := b.do("DELETE", "/apis/example.io/v1/namespaces/n/widgets/a", body)
			if _, err := m.Get(t.Context(), name("a")); code != want || (err == nil) != (want == http.StatusConflict) {
				b.t.Errorf("%s: %d, want %d: %s", body, code, want, answer)
			}
		})
	}
}
