package registry_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/go-lw/lw/internal/registry"
)

// An object may stay for a while, which later requests make shorter and not longer.
func TestGrace(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Grace: func(_ *Object, asked *int64) int64 {
		if asked == nil {
			return 30
		}
		return *asked
	}}
	m := newMemory(k)
	mustCreate(t, m, `{"metadata":{"name":"a"}}`)
	for _, c := range []struct {
		seconds, want string
	}{{"", "30"}, {"60", "30"}, {"", "30"}, {"10", "10"}, {"-5", "1"}, {"0", "gone"}} {
		query := url.Values{}
		if c.seconds != "" {
			query.Set("gracePeriodSeconds", c.seconds)
		}
		out := must(t, m, Request{Verb: Delete, Key: named("a"), Query: query})
		got := "gone"
		if !out.Gone {
			got = fmt.Sprint(*m.objects[named("a")].Meta.DeletionGracePeriodSeconds)
		}
		if got != c.want {
			t.Errorf("asked for %q: %s, want %s", c.seconds, got, c.want)
		}
	}
}

// A grace period that is over is shortened to a second: somebody may still end the object.
func TestGraceIsOver(t *testing.T) {
	k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Grace: func(*Object, *int64) int64 { return -4 }}
	m := newMemory(k)
	past, thirty := metav1.NewTime(time.Now().Add(-time.Hour)), int64(30)
	m.objects[named("a")] = &Object{Meta: metav1.ObjectMeta{Name: "a", Namespace: "ns", DeletionTimestamp: &past, DeletionGracePeriodSeconds: &thirty}, Body: []byte("{}")}
	m.objects[named("b")] = &Object{Meta: metav1.ObjectMeta{Name: "b", Namespace: "ns"}, Body: []byte("{}")}
	for _, name := range []string{"a", "b"} { // of b a negative number of seconds is wanted
		must(t, m, Request{Verb: Delete, Key: named(name), Query: url.Values{"gracePeriodSeconds": {"10"}}})
		meta := m.objects[named(name)].Meta
		if s := meta.DeletionGracePeriodSeconds; s == nil || *s != 1 || time.Since(meta.DeletionTimestamp.Time) > time.Minute {
			t.Errorf("%s: %v", name, meta)
		}
	}
}

// An object that stays for no second is seen as one that is being deleted before it is gone, also if
// somebody else changes or removes it in between.
func TestGraceOfNone(t *testing.T) {
	for name, meanwhile := range map[string]func(m *memory){
		"alone":   func(*memory) {},
		"changed": func(m *memory) { m.put(m.objects[named("a")]) },
		"removed": func(m *memory) { delete(m.objects, named("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(&Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Grace: func(*Object, *int64) int64 { return 0 }})
			mustCreate(t, m, `{"metadata":{"name":"a"}}`)
			var seen *Object
			m.before = func() { // the mark
				m.before = func() { // the removal
					seen = m.objects[named("a")]
					meanwhile(m)
				}
			}
			out, _, err := do(m, Request{Verb: Delete, Key: named("a")})
			if err != nil || !out.Gone || m.objects[named("a")] != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			for _, o := range []*Object{seen, out.Object} {
				if o == nil || o.Meta.DeletionTimestamp == nil || o.Meta.DeletionGracePeriodSeconds == nil || *o.Meta.DeletionGracePeriodSeconds != 0 {
					t.Errorf("%+v", o)
				}
			}
		})
	}
}
