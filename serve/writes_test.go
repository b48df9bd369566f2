package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// Nothing is stored or deleted that Validate has not judged against the object that it replaces,
// also if that changes meanwhile. An update without a version is of whatever object there is, and
// so is a deletion, unless the client wants another version or another object.
func TestValidateSeesWhatIsReplaced(t *testing.T) {
	const frozen = 99 // a size that no write may replace
	for _, tt := range []struct {
		method, body string
		size         int // what another client writes meanwhile; 0: it deletes the object
		code         int
	}{
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, frozen, http.StatusUnprocessableEntity},
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, 3, http.StatusOK},
		{"PUT", `{"metadata":{"name":"a","uid":"UID"},"size":5}`, frozen, http.StatusUnprocessableEntity},
		{"PUT", `{"metadata":{"name":"a","uid":"UID"},"size":5}`, 3, http.StatusOK},
		{"PUT", `{"metadata":{"name":"a","uid":"another"},"size":5}`, 3, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a","resourceVersion":"2"},"size":5}`, 3, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a","resourceVersion":"2"},"size":5}`, frozen, http.StatusConflict},
		{"PUT", `{"metadata":{"name":"a"},"size":5}`, 0, http.StatusNotFound},
		{"DELETE", ``, frozen, http.StatusUnprocessableEntity},
		{"DELETE", ``, 3, http.StatusOK},
		{"DELETE", `{"preconditions":{"uid":"UID"}}`, frozen, http.StatusUnprocessableEntity},
		{"DELETE", `{"preconditions":{"uid":"UID"}}`, 3, http.StatusOK},
		{"DELETE", `{"preconditions":{"uid":"another"}}`, frozen, http.StatusConflict},
		{"DELETE", `{"preconditions":{"uid":"another"}}`, 3, http.StatusConflict},
		{"DELETE", `{"preconditions":{"resourceVersion":"2"}}`, 3, http.StatusConflict},
		{"DELETE", ``, 0, http.StatusNotFound},
	} {
		m := lw.NewMemory(newWidget(name("a"), 1))
		var judged []int
		r := widgets
		r.Validate = func(_ context.Context, w, old *Widget) error {
			if judged = append(judged, old.Size); len(judged) > 1 && old.Size == frozen {
				return errors.New("it is frozen")
			}
			if len(judged) > 1 {
				return nil
			}
			if tt.size == 0 {
				_, err := m.Delete(t.Context(), name("a"), "")
				return err
			}
			_, err := m.Update(t.Context(), newWidget(name("a"), tt.size))
			return err
		}
		inBubble(t, serve.Options{}, func(b *bubble) {
			b.memory(m, r)
			obj, _ := m.Get(t.Context(), name("a"))
			before := obj.UID
			b.answers(tt.code, "", tt.method, oneWidget, strings.ReplaceAll(tt.body, "UID", string(before)))
			obj, err := m.Get(t.Context(), name("a"))
			switch {
			case tt.code == http.StatusOK && tt.method == "PUT":
				if err != nil || obj.Size != 5 || obj.UID != before || judged[len(judged)-1] != tt.size {
					t.Errorf("%s %s: it is %+v, and was judged by %v", tt.method, tt.body, obj, judged)
				}
			case tt.code == http.StatusOK || tt.size == 0:
				if err == nil {
					t.Errorf("%s %s: it is left", tt.method, tt.body)
				}
			case len(judged) > 0 && obj.Size != tt.size:
				t.Errorf("%s %s: it is %+v after a refusal", tt.method, tt.body, obj)
			}
		})
	}
}

// Objects without a namespace are found where they are, and nowhere else.
func TestClusterScope(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		m := lw.NewMemory[*Widget]()
		r := widgets
		r.Cluster = true
		b.memory(m, r)
		b.answers(http.StatusCreated, "", "POST", path, `{"metadata":{"name":"a"},"size":1}`)
		// A namespace is refused, or forgotten, but never stored.
		code, answer := b.do("POST", path, `{"metadata":{"name":"b","namespace":"n"},"size":1}`)
		if w, err := m.Get(t.Context(), lw.Key{Name: "b"}); code != http.StatusBadRequest && !(code == http.StatusCreated && err == nil && w.Namespace == "") {
			t.Errorf("with a namespace: %d %s", code, answer)
		}
		if _, err := m.Get(t.Context(), name("b")); err == nil {
			t.Error("an object is in a namespace")
		}
		for _, tt := range []struct {
			method, path string
			code         int
		}{
			{"GET", path + "/a", 200}, {"GET", path + "?fieldSelector=metadata.name%3Da", 200}, {"GET", path, 200},
			{"GET", oneWidget, 404}, {"GET", strings.TrimSuffix(oneWidget, "/a"), 404}, {"GET", strings.TrimSuffix(oneWidget, "/a") + "?watch=1", 404},
			{"POST", strings.TrimSuffix(oneWidget, "/a"), 404}, {"PUT", oneWidget, 404}, {"DELETE", oneWidget, 404}, {"GET", path + "/a/status", 404},
		} {
			code, answer := b.do(tt.method, tt.path, `{"metadata":{"name":"a"},"size":2}`)
			if code != tt.code || code == 200 && !strings.Contains(answer, `"name":"a"`) {
				t.Errorf("%s %s: %d, want %d: %s", tt.method, tt.path, code, tt.code, answer)
			}
		}
		if w, _ := m.Get(t.Context(), lw.Key{Name: "a"}); w == nil || w.Size != 1 {
			t.Errorf("it is %+v", w)
		}
	})
	// And one with a namespace is not found without it, nor one that should have one.
	inBubble(t, serve.Options{}, func(b *bubble) {
		b.memory(lw.NewMemory(newWidget(name("a"), 1), newWidget(lw.Key{Name: "a"}, 1), newWidget(lw.Key{Namespace: "other", Name: "b"}, 1)), widgets)
		for at, want := range map[string]int{path + "/a": 404, oneWidget: 200, strings.Replace(oneWidget, "/n/", "/other/", 1): 404} {
			b.answers(want, "", "GET", at, "")
		}
	})
}

// The time of creation is that of the object that is stored: an update neither dates nor forgets
// it.
func TestUpdateKeepsTheDate(t *testing.T) {
	inBubble(t, serve.Options{}, func(b *bubble) {
		dated := newNote("dated", "x")
		dated.CreationTimestamp = metav1.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		m := lw.NewMemory(newNote("a", "x"), dated)
		stored(b, m, notes)
		for _, n := range []string{"a", "dated"} {
			was, _ := m.Get(t.Context(), name(n))
			code, answer := b.do("PUT", "/apis/example.io/v1/namespaces/n/notes/"+n, fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{"text":"y"}}}`, n))
			var got Note
			if err := json.Unmarshal([]byte(answer), &got); err != nil || code != http.StatusOK {
				t.Fatalf("%d %v %s", code, err, answer)
			}
			now, _ := m.Get(t.Context(), name(n))
			for _, obj := range []*Note{&got, now} {
				if diff := cmp.Diff(was.CreationTimestamp.UTC(), obj.CreationTimestamp.UTC()); diff != "" || obj.Annotations["text"] != "y" {
					t.Errorf("%s: %+v: %s", n, obj, diff)
				}
			}
		}
	})
}
