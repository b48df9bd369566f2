package kinds_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/serve"
)

// A view is what is made of a gate: a collection that a program reads.
type view struct {
	// names returns what it has, sorted.
	names func() []string
	// of returns what it should have of a kind with objects of these names; nil: the names.
	of func(names []string) []string
	// calls has what a handler was called with; nil: there is none.
	calls *follower
	// amid is called while the kind is absent, and settle before goroutines are counted.
	amid, settle func()
	within       time.Duration // how long it may take
}

// show returns a view of c, with a handler.
func show[T lw.Object](c lw.Collection[T]) *view {
	calls := &follower{}
	v := &view{calls: calls, amid: func() {}, settle: func() {}, within: 3 * time.Second}
	c.AddHandler(lw.Handler[T]{
		Add:    func(o T) { calls.note(&calls.calls, "add "+o.GetName()) },
		Update: func(_, o T) { calls.note(&calls.calls, "update "+o.GetName()) },
		Delete: func(o T) { calls.note(&calls.calls, "delete "+o.GetName()) },
	})
	v.names = func() []string {
		names := []string{}
		for o := range c.Store().Snapshot().All() {
			names = append(names, o.GetName())
		}
		slices.Sort(names)
		return names
	}
	return v
}

// informer runs an informer of a source.
func informer[T lw.Object](w *world, src lw.Source[T]) *lw.Informer[T] {
	inf := lw.NewInformer(src, &lw.Options{
		OnError: func(err error) { w.t.Error(err) },
		Logger:  slog.New(slog.DiscardHandler),
	})
	w.running.Go(func() {
		if err := inf.Run(w.ctx); err != nil {
			w.t.Error(err)
		}
	})
	return inf
}

// graph runs a graph, which makes each collection anew at each step, and compares.
func (w *world) graph() *lw.Graph {
	g := lw.NewGraph(&lw.GraphOptions{Verify: true, OnError: func(err error) { w.t.Error(err) }})
	w.running.Go(func() { _ = g.Run(w.ctx) })
	return g
}

func (w *world) gate() lw.Source[*widget] { return kinds.Source[*widget](w.catalog, widgetName, nil) }

// A named object is what a derived collection has.
type named struct {
	lw.Meta `json:"metadata"`
	others  int
}

func byNamespace(o *widget) iter.Seq[string] {
	return func(yield func(string) bool) { yield(o.Namespace) }
}

// only leaves those of names that are in wanted.
func only(wanted ...string) func([]string) []string {
	return func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(wanted, n) })
	}
}

// What is around a gate follows its kind, which comes and goes: it has the objects of the kind, a
// handler gets the Delete of each, the kind is not asked for while it is absent, and nothing is left.
func TestAround(t *testing.T) {
	for name, make := range map[string]func(w *world) *view{
		"Derive": func(w *world) *view {
			return show(lw.Derive(w.graph(), informer(w, w.gate()), func(o *widget) *named {
				return &named{Meta: lw.MetaOf(o)}
			}))
		},
		"Join with a kind that stays": func(w *world) *view {
			create(w.t, w.objects("gadgets"), "a", "g")
			on := lw.On[string, *widget, *widget]{Left: byNamespace, Right: byNamespace}
			return show(lw.Join(w.graph(), informer(w, w.gate()), informer(w, w.gadgets()), on,
				func(o, _ *widget) *named { return &named{Meta: lw.MetaOf(o)} }))
		},
		"LeftJoin of a kind that stays": func(w *world) *view {
			create(w.t, w.objects("gadgets"), "a", "g")
			on := lw.On[string, *widget, *widget]{Left: byNamespace, Right: byNamespace}
			joined := lw.LeftJoin(w.graph(), informer(w, w.gadgets()), informer(w, w.gate()), on,
				func(o *widget, rights []*widget) *named { return &named{lw.MetaOf(o), len(rights)} })
			v := show(joined)
			v.calls = nil
			v.names = func() []string {
				all := []string{}
				for o := range joined.Store().Snapshot().All() {
					all = append(all, fmt.Sprint(o.Name, o.others))
				}
				return all
			}
			v.of = func(names []string) []string { return []string{fmt.Sprint("g", len(names))} }
			return v
		},
		"Union with a kind that stays": func(w *world) *view {
			create(w.t, w.objects("gadgets"), "a", "g")
			v := show(lw.NewUnion(w.graph(), informer(w, w.gate()), informer(w, w.gadgets())))
			v.of = func(names []string) []string {
				all := append([]string{"g"}, names...)
				slices.Sort(all)
				return all
			}
			return v
		},
		"Wanted": func(w *world) *view {
			var set lw.KeySet
			set.Set("test", lw.Key{Namespace: "a", Name: "x"}, lw.Key{Namespace: "a", Name: "never"})
			inf := informer(w, lw.Wanted(w.gate(), &set))
			v := show(inf)
			v.of = only("x")
			v.amid = func() {
				key := lw.Key{Namespace: "a", Name: "later"}
				set.Set("other", key)
				defer set.Set("other")
				if err := inf.WaitForKey(w.ctx, key); err != nil || inf.KeyState(key) != lw.KeyAbsent {
					w.t.Error(inf.KeyState(key), err)
				}
			}
			return v
		},
		"Wanted by namespace": func(w *world) *view {
			var set lw.NamespaceSet
			set.Set("test", "a")
			return show(informer(w, lw.Wanted(w.gate(), &set)))
		},
		"ByName": func(w *world) *view {
			var set lw.KeySet
			set.Set("test", lw.Key{Namespace: "a", Name: "x"}, lw.Key{Namespace: "a", Name: "never"})
			opts := &lw.ByNameOptions{Options: lw.Options{OnError: func(err error) { w.t.Error(err) }}}
			by := lw.NewByName(w.graph(), &set, func(key lw.Key) lw.Source[*widget] {
				return kinds.Source(w.catalog, widgetName, &kinds.SourceOptions[*widget]{Namespace: key.Namespace})
			}, opts)
			w.running.Go(func() { _ = by.Run(w.ctx) })
			v := show(by)
			v.of = only("x")
			return v
		},
		"Only": func(w *world) *view {
			inf := informer(w, kinds.Source(w.catalog, widgetName, &kinds.SourceOptions[*widget]{
				Make: func(s kinds.State) lw.Source[*widget] {
					src := w.http(s)
					src.Only = lw.Fields{"spec"}
					return src
				}}))
			return show(inf)
		},
		"a projection": func(w *world) *view {
			return show(informer(w, kinds.Source[*named](w.catalog, widgetName, nil)))
		},
		"Transform": func(w *world) *view {
			v := show(informer(w, lw.Transform(w.gate(), func(o *widget) (*named, error) {
				if o.Name == "y" {
					return nil, nil
				}
				return &named{Meta: lw.MetaOf(o)}, nil
			})))
			v.of = only("x", "z")
			return v
		},
		"Pack": func(w *world) *view { return show(informer(w, w.packed(lw.PackOptions{}))) },
		"Pack with a limit": func(w *world) *view {
			return show(informer(w, w.packed(lw.PackOptions{Limit: &lw.PackLimit{Bytes: 1}})))
		},
		"Shard": func(w *world) *view {
			g := w.graph()
			return show(lw.NewUnion(g, informer(w, lw.Shard(w.gate(), 0, 2)), informer(w, lw.Shard(w.gate(), 1, 2))))
		},
		"a relay of package serve": func(w *world) *view {
			h := serve.New(&serve.Options{Authorize: serve.AllowAll})
			inf := informer(w, w.gate())
			w.running.Go(func() {
				err := serve.Serve(w.ctx, h, inf, serve.Resource[*widget]{Group: group, Name: "widgets", Kind: "Widget"})
				if w.ctx.Err() == nil {
					w.t.Error(err)
				}
			})
			front := apiserver.New(apiserver.Options{Wrap: func(http.Handler) http.Handler { return h }})
			w.running.Go(func() {
				<-w.ctx.Done()
				front.Client().CloseIdleConnections()
				front.Close()
			})
			synctest.Wait()
			if err := h.WaitForSync(w.ctx); err != nil {
				w.t.Fatal(err)
			}
			// A client that knows nothing of kinds. It gets 410 where the history begins anew.
			src := &lw.HTTP[*widget]{URL: "http://relay/apis/" + group + "/v1/widgets", Client: front.Client()}
			client := lw.NewInformer(src, &lw.Options{OnError: func(err error) {
				if !apierrors.IsResourceExpired(err) {
					w.t.Error(err)
				}
			}})
			w.running.Go(func() { _ = client.Run(w.ctx) })
			v := show(client)
			v.within = 30 * time.Second // a 410 soon after another one is followed by a pause
			v.settle = front.Client().CloseIdleConnections
			return v
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { around(t, make) }) })
	}
}

func (w *world) gadgets() lw.Source[*widget] {
	return &lw.HTTP[*widget]{URL: w.server.URL() + "/apis/stays.com/v1/gadgets", Client: w.server.Client(), Kind: "Gadget"}
}

// http is a source of what is served.
func (w *world) http(s kinds.State) *lw.HTTP[*widget] {
	return &lw.HTTP[*widget]{
		URL:    w.server.URL() + "/apis/" + group + "/" + s.Resource.Version + "/" + s.Resource.Resource,
		Client: &http.Client{Transport: w},
	}
}

func (w *world) packed(opts lw.PackOptions) lw.Source[*lw.Packed[*widget]] {
	return kinds.Source(w.catalog, widgetName, &kinds.SourceOptions[*lw.Packed[*widget]]{
		Make: func(s kinds.State) lw.Source[*lw.Packed[*widget]] { return lw.Pack(w.http(s), opts) },
	})
}

// goroutines returns the stacks of all goroutines.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	return strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
}

func around(t *testing.T, make func(w *world) *view) {
	w := newWorld(t, lwtest.Resource{Group: "stays.com", Plural: "gadgets", Kind: "Gadget"})
	w.run()
	v := make(w)
	if v.of == nil {
		v.of = func(names []string) []string { return names }
	}
	isWithin := func(most time.Duration, names ...string) {
		t.Helper()
		want := append([]string{}, v.of(names)...)
		within(t, most, fmt.Sprint("it has ", want), func() bool { return cmp.Equal(want, v.names()) })
	}
	is := func(names ...string) {
		t.Helper()
		isWithin(v.within, names...)
	}
	called := func(with ...string) {
		t.Helper()
		if v.calls == nil {
			return
		}
		want := []string{}
		for _, call := range with {
			what, name, _ := strings.Cut(call, " ")
			if now := v.of([]string{name}); slices.Contains(now, name) {
				want = append(want, what+" "+name)
			}
		}
		got := slices.DeleteFunc(v.calls.take(), func(call string) bool { return call == "add g" })
		if diff := cmp.Diff(strings.Join(want, ", "), strings.Join(got, ", ")); diff != "" {
			t.Error(diff)
		}
	}
	// absent waits an hour in which the kind is not asked for, and returns how many goroutines are
	// left, those of connections apart, of which there may be more or fewer.
	absent := func() (left, all int) {
		t.Helper()
		time.Sleep(3 * time.Second)
		before := w.asked("/" + group + "/")
		v.amid()
		time.Sleep(time.Hour)
		is()
		if n := w.asked("/"+group+"/") - before; n != 0 {
			t.Errorf("%d requests of an absent kind", n)
		}
		w.server.Client().CloseIdleConnections()
		v.settle()
		synctest.Wait()
		for _, g := range goroutines() {
			if !strings.Contains(g, ", synctest bubble ") {
				continue // of the runtime, which may collect
			}
			all++
			if !strings.Contains(g, "created by net/http.") {
				left++
			}
		}
		return left, all
	}
	left, all := absent()
	for _, s := range []spec{widgets, {plural: "widgeten", kind: "Widget", versions: "v1"}} {
		w.define(s)
		create(t, w.objects(s.plural), "a", "x")
		create(t, w.objects(s.plural), "a", "y")
		is("x", "y")
		called("add x", "add y")
		w.undefine(s)
		is()
		called("delete x", "delete y")
		w.define(s) // soon
		create(t, w.objects(s.plural), "a", "x")
		is("x")
		w.undefine(s) // and made again at once
		w.define(s)
		create(t, w.objects(s.plural), "a", "z")
		// The catalog may have to wait for a bookmark, to say that it has seen all.
		isWithin(max(v.within, 10*time.Second), "z")
		w.undefine(s)
		is()
		called("add x", "add z", "delete x", "delete z")
		if nowLeft, nowAll := absent(); nowLeft > left || nowAll > all+4 {
			t.Errorf("%d goroutines, and before %d; with connections %d, and %d\n%s", nowLeft, left, nowAll, all,
				strings.Join(goroutines(), "\n\n"))
		}
	}
}

// A lent source notes whether the objects of the store were lent to it.
type lent struct {
	lw.Source[*widget]
	note func(lent bool)
}

func (l *lent) Reuses(request.Mark) bool { return true }

func (l *lent) List(ctx context.Context, opts metav1.ListOptions, yield func(*widget, error) error) (metav1.ListMeta, error) {
	l.note(request.LenderOf(ctx) != nil)
	return l.Source.List(ctx, opts, yield)
}

// A decoder reads in the memory of the objects that are lent to it. So those of one definition are
// not lent to the decoder of the next.
func TestLends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		var lists [][]bool // of each source
		src := kinds.Source(w.catalog, widgetName, &kinds.SourceOptions[*widget]{Make: func(s kinds.State) lw.Source[*widget] {
			i := len(lists)
			lists = append(lists, nil)
			return &lent{w.http(s), func(lent bool) { lists[i] = append(lists[i], lent) }}
		}})
		inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole})
		w.running.Go(func() { _ = inf.Run(w.ctx) })
		for _, plural := range []string{"widgets", "widgeten"} {
			w.define(spec{plural: plural, kind: "Widget", versions: "v1"})
			create(t, w.objects(plural), "a", "x")
			time.Sleep(time.Minute)
			w.undefine(spec{plural: plural})
			time.Sleep(time.Minute)
		}
		for i := range lists { // one that comes too early gets 404, and is made again
			lists[i] = slices.Compact(lists[i])
		}
		if diff := cmp.Diff([][]bool{{true}, {false}}, lists); diff != "" {
			t.Error(diff)
		}
	})
}
