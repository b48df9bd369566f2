package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

func TestDemo(t *testing.T) {
	for name, demo := range map[string]func(*testing.T) error{
		"unstructured": func(t *testing.T) error { return demo[*unstructured.Unstructured](t.Context(), t.Output()) },
		"metadata":     func(t *testing.T) error { return demo[*metav1.PartialObjectMetadata](t.Context(), t.Output()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := demo(t); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A kind that two want is watched once, until both have lost it, and each change is told to both. A
// definition that is not established, or not served, is no kind.
func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.Close()
		var mu sync.Mutex
		var told []string
		f, err := NewFollower(w.config(), nil, true, slog.New(slog.DiscardHandler),
			func(kind string, change lw.EventType, obj *metav1.PartialObjectMetadata) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, kind+" "+change.String()+" "+obj.Name)
			})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		// asked returns the number of requests for websites that were answered with that code.
		asked := func(code int, verbs ...lwtest.Verb) (n int) {
			for _, r := range w.Requests(verbs...) {
				if r.Plural == "websites" && r.Code == code {
					n++
				}
			}
			return n
		}
		// followed returns the resource that is followed for each who wants it.
		followed := func() map[string]string {
			f.mu.Lock()
			defer f.mu.Unlock()
			out := map[string]string{}
			for who, k := range f.kinds {
				out[who] = name(k.resource)
			}
			return out
		}
		expect := func(want map[string]string) {
			t.Helper()
			if got := followed(); !maps.Equal(want, got) {
				t.Errorf("followed: %v, want %v", got, want)
			}
		}
		must(w.define("websites"))
		must(f.want("me", schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "websites"}))
		must(w.create("websites", "bakery"))
		const v1, v2 = "websites.v1.example.dev", "websites.v2.example.dev"
		expect(map[string]string{"websites.example.dev": v1, "me": v1})
		mu.Lock()
		if n := asked(200, lwtest.Stream, lwtest.Watch); n != 1 || !slices.Equal(told, []string{v1 + " added bakery", v1 + " added bakery"}) {
			t.Errorf("%d watches, told %q", n, told)
		}
		mu.Unlock()

		d, err := w.definitions.Get(lw.Key{Name: "websites.example.dev"})
		must(err)
		for _, change := range []func(){
			func() { d.Status.Conditions[0].Status = metav1.ConditionFalse },
			func() { d.Status.Conditions[0].Status, d.Spec.Versions[0].Served = metav1.ConditionTrue, false },
		} {
			change()
			d, err = w.definitions.Update(d)
			must(err)
			expect(map[string]string{"me": v1})
		}
		// A newer version is served, and stored.
		d.Spec.Versions = []Version{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}}
		_, err = w.definitions.Update(d)
		must(err)
		expect(map[string]string{"websites.example.dev": v2, "me": v1})
		f.unwant("me")
		f.unwant("me")
		must(w.undefine("websites"))
		expect(map[string]string{})
		must(w.define("websites"))
		must(w.undefine("websites"))
		before := asked(200)
		w.SetServed("websites", true)
		time.Sleep(time.Hour)
		if n := asked(200); n != before {
			t.Errorf("%d requests for what nobody wants", n-before)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
