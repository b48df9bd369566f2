package apiserver_test

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A collection that is not served any more is empty, its watches have ended, and it is not found.
func TestSetServed(t *testing.T) {
	inBubble(t, func(b *bench) {
		held := func(p *metav1.PartialObjectMetadata) { p.Finalizers = []string{"x"} }
		b.create("a")
		b.put("pods", pod("b", held))
		s := b.watch("resourceVersion=3")
		s.all()
		b.pods.SetServed(true) // nothing changes
		same(b, "served twice", []string(nil), s.all())
		b.pods.SetServed(false)
		same(b, "watch", []string{"DELETED a@4", "DELETED b@5", "EOF"}, s.all())
		for path, want := range map[string]int{"/api/v1/pods": 404, "/api/v1/namespaces/ns/pods/a": 404, "/api/v1/nodes": 200, "/apis/example.com/v1": 200} {
			if got := b.code(http.MethodGet, path, ""); got != want {
				b.Errorf("%s: %d, want %d", path, got, want)
			}
		}
		b.Collection("tools").SetServed(false)
		for _, path := range []string{"/apis/apps", "/apis/apps/v1"} {
			if got := b.code(http.MethodGet, path, ""); got != 404 {
				b.Errorf("%s: %d, want 404", path, got)
			}
		}
		b.pods.SetServed(true)
		if got := b.list(""); got != "200 rv=5" {
			b.Errorf("list: %q", got)
		}
		b.create("a")
		if got := b.list(""); got != "200 rv=6 a@6" {
			b.Errorf("list: %q", got)
		}
	})
}
