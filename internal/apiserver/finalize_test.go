package apiserver_test

import (
	"encoding/json"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An object with a finalizer is marked when it is deleted, and gone when its last finalizer is.
func TestFinalizers(t *testing.T) {
	inBubble(t, func(b *bench) {
		s := b.watch("resourceVersion=1")
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u","finalizers":["x","y"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`))
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "", `{"metadata":{"name":"a","finalizers":["x","y"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`, "409 AlreadyExists"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x","y"],"deletionTimestamp":"2020-01-01T00:00:00Z"}}`, "422 Invalid"},
			{"DELETE", "/a", `{"preconditions":{"uid":"v"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"resourceVersion":"1"}}`, "409 Conflict"},
			{"DELETE", "/a", `{"preconditions":{"uid":"u","resourceVersion":"2"}}`, "200 a@3 gen=2"},
			{"DELETE", "/a", "", "200 a@3 gen=2"}, // again: nothing changes
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x","y","z"]}}`, "422 Invalid"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["y"]}}`, "200 a@4 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","resourceVersion":"3"}}`, "409 Conflict"},
			{"PUT", "/a", `{"metadata":{"name":"a","uid":"v"}}`, "409 Conflict"},
			{"GET", "/a", "", "200 a@4 gen=2"},
			{"PUT", "/a", `{"metadata":{"name":"a","uid":"u","resourceVersion":"4"}}`, "200 a@4 gen=2"},
			{"GET", "/a", "", "404 NotFound"},
			{"PUT", "/a", `{"metadata":{"name":"a"}}`, "404 NotFound"},
			{"DELETE", "/a", "", "404 NotFound"},
			{"POST", "", `{"metadata":{"name":"a"}}`, "201 a@6 gen=1"},
			{"PUT", "/a", `{"metadata":{"name":"a","finalizers":["x"]}}`, "200 a@7 gen=1"},
			{"PUT", "/a", `{"metadata":{"name":"a"}}`, "200 a@8 gen=1"},
		} {
			same(b, c.method+" "+c.path+" "+c.body, c.want, b.send(c.method, c.path, c.body))
		}
		want := []string{"ADDED a@2", "MODIFIED a@3", "MODIFIED a@4", "DELETED a@5", "ADDED a@6", "MODIFIED a@7", "MODIFIED a@8"}
		same(b, "watch", want, s.all())
		s.close()
	})
}

// The collection's own methods know finalizers too, and the mark has its time.
func TestFinalizersWithoutHTTP(t *testing.T) {
	inBubble(t, func(b *bench) {
		held := func(p *metav1.PartialObjectMetadata) { p.Finalizers = []string{"x"} }
		b.put("pods", pod("a", held))
		obj, err := b.pods.Delete(key("a"))
		if err != nil {
			b.Fatal(err)
		}
		var marked metav1.PartialObjectMetadata
		if err := json.Unmarshal(obj.JSON, &marked); err != nil {
			b.Fatal(err)
		}
		if marked.DeletionTimestamp.IsZero() || marked.DeletionGracePeriodSeconds == nil || marked.ResourceVersion != "3" {
			b.Errorf("deleted: %s", obj.JSON)
		}
		if _, err := b.pods.Update(pod("a")); err != nil {
			b.Error(err)
		}
		if _, err := b.pods.Get(key("a")); !apierrors.IsNotFound(err) {
			b.Errorf("Get of what is gone: %v", err)
		}
	})
}

// An eviction deletes a Pod as its options say.
func TestEviction(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put("pods", []byte(`{"metadata":{"namespace":"ns","name":"a","uid":"u"}}`))
		for _, c := range []struct {
			method, path, body string
			code               int
		}{
			{"POST", "/a/eviction", `{"deleteOptions":{"preconditions":{"uid":"v"}}}`, 409},
			{"POST", "/a/eviction?dryRun=All", `{}`, 201},
			{"POST", "/a/eviction", `{"deleteOptions":{"dryRun":["All"]}}`, 201},
			{"POST", "/a/eviction", `{"deleteOptions":{"dryRun":["Some"]}}`, 422},
			{"POST", "/a/eviction", `[]`, 400},
			{"PUT", "/a/eviction", `{}`, 405},
			{"GET", "/a/eviction", ``, 405},
			{"POST", "/b/eviction", `{}`, 404},
			{"GET", "/a", "", 200},
			{"POST", "/a/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`, 201},
			{"GET", "/a", "", 404},
		} {
			if got := b.code(c.method, "/api/v1/namespaces/ns/pods"+c.path, c.body, "Content-Type", "application/json"); got != c.code {
				b.Errorf("%s %s %s: %d, want %d", c.method, c.path, c.body, got, c.code)
			}
		}
	})
}
