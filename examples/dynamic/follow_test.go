package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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
		var told []string
		f, err := NewFollower(w.config(), nil, true, slog.New(slog.DiscardHandler),
			func(kind string, change lw.EventType, obj *metav1.PartialObjectMetadata) {
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
		watched := func() (n int) {
			for _, r := range w.Requests(lwtest.Stream, lwtest.Watch) {
				if r.Plural == "websites" && r.Code == 200 {
					n++
				}
			}
			return n
		}
		must(w.define("websites"))
		must(f.want("me", schema.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "websites"}))
		must(w.create("websites", "bakery"))
		if n := watched(); n != 1 || !slices.Equal(told, []string{"websites.v1.example.dev Added bakery", "websites.v1.example.dev Added bakery"}) {
			t.Errorf("%d watches, told %q", n, told)
		}

		d, err := w.definitions.Get(lw.Key{Name: "websites.example.dev"})
		must(err)
		for _, change := range []func(){
			func() { d.Status.Conditions[0].Status = metav1.ConditionFalse },
			func() { d.Status.Conditions[0].Status, d.Spec.Versions[0].Served = metav1.ConditionTrue, false },
		} {
			change()
			d, err = w.definitions.Update(d)
			must(err)
			if len(f.kinds) != 1 || f.kinds["me"] == nil {
				t.Errorf("kinds %v", f.kinds)
			}
		}
		// A newer version is served, and stored.
		d.Spec.Versions = []Version{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}}
		_, err = w.definitions.Update(d)
		must(err)
		if k := f.kinds[d.Name]; k == nil || k.resource.Version != "v2" {
			t.Errorf("kinds %v", f.kinds)
		}
		f.unwant("me")
		f.unwant("me")
		must(w.undefine("websites"))
		if len(f.kinds) != 0 {
			t.Errorf("kinds %v", f.kinds)
		}
		before := len(w.Requests())
		time.Sleep(time.Minute)
		if n := len(w.Requests()); n != before {
			t.Errorf("%d requests for what nobody wants", n-before)
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
