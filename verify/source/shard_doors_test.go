package source_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// halfOf selects the objects whose field has a hash in the upper half, as apimachinery writes it.
func halfOf(field string) sharding.Selector {
	return sharding.NewSelector(sharding.ShardRangeRequirement{Key: field, Start: "0x8000000000000000",
		End: "0x10000000000000000"})
}

// An asked client of a generated clientset has its requests made by an lw.HTTP.
type askedClient struct{ *lw.HTTP[*rig.Gadget] }

func (askedClient) Get(context.Context, string, metav1.GetOptions) (*rig.Gadget, error) {
	panic("nobody gets")
}

func (c askedClient) List(ctx context.Context, opts metav1.ListOptions) (*listOf[*rig.Gadget], error) {
	l := &listOf[*rig.Gadget]{}
	var err error
	l.ListMeta, err = c.HTTP.List(ctx, opts, func(obj *rig.Gadget, err error) error {
		l.Items = append(l.Items, obj)
		return err
	})
	return l, err
}

func (c askedClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	ctx, stop := context.WithCancel(ctx)
	w := &askedWatch{ch: make(chan watch.Event), stop: stop}
	go func() {
		defer close(w.ch)
		_ = c.HTTP.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Gadget]) error {
			e := watch.Event{Type: ev.Type, Object: ev.Object}
			if ev.Type == watch.Bookmark {
				e.Object = &rig.Gadget{ObjectMeta: metav1.ObjectMeta{ResourceVersion: ev.ResourceVersion}}
				if ev.InitialEventsEnd {
					e.Object.(*rig.Gadget).Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				}
			}
			select {
			case w.ch <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return w, nil
}

type askedWatch struct {
	ch   chan watch.Event
	stop func()
}

func (w *askedWatch) Stop()                          { w.stop() }
func (w *askedWatch) ResultChan() <-chan watch.Event { return w.ch }

var _ runtime.Object = (*listOf[*rig.Gadget])(nil)

// A shard selector holds through every door, whether the server selects by it or not: it is in each
// request, and the store has the selected objects and no others.
func TestShardDoors(t *testing.T) {
	doors := map[string]func(src *lw.HTTP[*rig.Gadget], selector string) lw.Source[*rig.Gadget]{
		"WithListOptions": func(src *lw.HTTP[*rig.Gadget], selector string) lw.Source[*rig.Gadget] {
			return lw.WithListOptions(src, func(o *metav1.ListOptions) { o.ShardSelector = selector })
		},
		"FromClient": func(src *lw.HTTP[*rig.Gadget], selector string) lw.Source[*rig.Gadget] {
			return lw.FromClient(askedClient{src}, func(o *metav1.ListOptions) { o.ShardSelector = selector })
		},
		"HTTP.URL": func(src *lw.HTTP[*rig.Gadget], selector string) lw.Source[*rig.Gadget] {
			src.URL += "?shardSelector=" + url.QueryEscape(selector)
			return src
		},
	}
	for door, open := range doors {
		for _, mode := range []lw.ListMode{lw.ListPages, lw.ListStream} {
			for _, on := range []bool{true, false} {
				for _, field := range []string{"object.metadata.uid", "object.metadata.namespace"} {
					t.Run(fmt.Sprintf("%s/%s/shards=%t/%s", door, mode, on, field), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { testShardDoor(t, open, mode, on, halfOf(field)) })
					})
				}
			}
		}
	}
}

func testShardDoor(t *testing.T, open func(*lw.HTTP[*rig.Gadget], string) lw.Source[*rig.Gadget], mode lw.ListMode,
	on bool, selector sharding.Selector) {
	server := lwtest.NewServer(t, lwtest.Resource{Group: "lw.test", Plural: "gadgets", Kind: "Gadget"})
	server.SetShards(on)
	gadgets := lwtest.Objects[*rig.Gadget](server, "gadgets")
	var want, lost []string
	create := func(from, to int) {
		for i := from; i < to; i++ {
			g, err := gadgets.Create(&rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("ns%d-tenant", i),
				Name: fmt.Sprint("g", i)}})
			rig.OK(t, err)
			if is, err := selector.Matches(g); err != nil {
				t.Fatal(err)
			} else if is {
				want = append(want, g.Name)
			} else {
				lost = append(lost, g.Name)
			}
		}
	}
	create(0, 16)
	src := gadgets.Source()
	var unsharded []string
	client := src.Client
	src.Client = &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if got := r.URL.Query().Get("shardSelector"); got != selector.String() {
			unsharded = append(unsharded, r.URL.String())
		}
		return client.Do(r)
	})}
	errs := &rig.Errors{}
	inf := lw.NewInformer(open(src, selector.String()), &lw.Options{List: mode, OnError: errs.Add})
	rig.Start(t, inf)
	rig.OK(t, inf.WaitForSync(t.Context()))
	create(16, 32)
	synctest.Wait()
	var got []string
	for g := range inf.Store().All() {
		got = append(got, g.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	rig.Same(t, "held", want, got)
	rig.Same(t, "requests without the selector", nil, unsharded)
	errs.MustBeNone(t)
	if len(want) == 0 || len(lost) == 0 {
		t.Errorf("the selector selects %d and leaves out %d: both must be some", len(want), len(lost))
	}
	// What is written by the program is told as the server would select it.
	own := &rig.Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns0", Name: "told", UID: "0", ResourceVersion: "100000"}}
	for i := 0; ; i++ {
		own.UID, own.Namespace = own.UID+"0", fmt.Sprint("ns", i)
		if is, _ := selector.Matches(own); !is {
			break
		}
	}
	if err := inf.Tell(own); err != nil {
		t.Errorf("Tell: %v", err)
	}
	if _, ok := inf.Store().Get(lw.KeyOf(own)); ok {
		t.Errorf("an object that the selector leaves out is in the store after it was told")
	}
}

// A shard selector that lw cannot read is refused, by an error that names it: a server without the
// feature would send everything.
func TestShardDoorRefuses(t *testing.T) {
	const bad = "shardRange(object.metadata.name, '0x8000000000000000', '0x10000000000000000')"
	m := lw.NewMemory[*rig.Gadget]()
	set := func(o *metav1.ListOptions) { o.ShardSelector = bad }
	for name, src := range map[string]lw.Source[*rig.Gadget]{
		"WithListOptions": lw.WithListOptions(m, set),
		"FromClient":      lw.FromClient(askedClient{}, set),
		"HTTP.URL": &lw.HTTP[*rig.Gadget]{URL: "http://apiserver/apis/lw.test/v1/gadgets?shardSelector=" +
			url.QueryEscape(bad)},
	} {
		_, err := src.List(t.Context(), metav1.ListOptions{}, nil)
		for what, err := range map[string]error{"List": err, "Watch": src.Watch(t.Context(), metav1.ListOptions{}, nil)} {
			if err == nil || !strings.Contains(err.Error(), `unsupported field "object.metadata.name"`) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
	}
}
