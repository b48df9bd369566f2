package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/verify/internal/inside"
)

// TestWantedHistories: in any history each wanted key that is ready is as the server had it at the
// reported version or later, it never goes back, and in the end it is as the server has it.
func TestWantedHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { rapid.SyncTest(r, wantedHistory) })
}

func wantedHistory(r *rapid.T) {
	const names = "abcdef"
	src, keys, wanted := newDistant("a", "b", "c"), &lw.KeySet{}, map[string]bool{}
	type state struct{ from, size int } // size 0: absent
	history := map[string][]state{}
	version := func() int { return number(r, src) }
	note := func(name string, size int) { history[name] = append(history[name], state{version(), size}) }
	for _, name := range names {
		history[string(name)] = []state{{0, 0}}
	}
	for _, name := range "abc" {
		history[string(name)] = []state{{0, 1}}
	}
	inf := lw.NewInformer(lw.Wanted[*rig.Widget](src, keys),
		&lw.Options{List: rapid.SampledFrom([]lw.ListMode{lw.ListAuto, lw.ListPages, lw.ListWhole}).Draw(r, "list"),
			OnError: func(error) {}, DetectMutation: true})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- inf.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ran; err != nil {
			r.Errorf("Run: %v", err)
		}
	}()
	last := map[string]int{} // the place in history that was shown last, while the key is wanted
	check := func() {
		synctest.Wait()
		if copies, n := inside.Copies(inf), inf.Store().Len(); copies != n {
			r.Fatalf("the detector of mutations has %d copies of %d objects", copies, n)
		}
		reported, _ := fmt.Sscan(inf.Store().ResourceVersion(), new(int))
		var at int
		if reported == 1 {
			fmt.Sscan(inf.Store().ResourceVersion(), &at)
		}
		for _, c := range names {
			name := string(c)
			s := inf.KeyState(rig.Key(name))
			w, ok := inf.Store().Get(rig.Key(name))
			if ready := s == lw.KeyThere || s == lw.KeyAbsent; !ready || !wanted[name] {
				if ok || ready {
					r.Fatalf("%s is shown, wanted %v, %v", name, wanted[name], s)
				}
				continue
			}
			size := 0
			if ok {
				size = w.Size
			}
			h, found := history[name], -1
			for i := max(last[name], 0); i < len(h) && found < 0; i++ {
				// It is as the server had it from h[i].from on, until a version that is not reported.
				if h[i].size == size && (i+1 == len(h) || h[i+1].from > at) {
					found = i
				}
			}
			if found < 0 {
				r.Fatalf("%s is shown with %d at %d, where the server had %v; before that the %dth", name, size, at, h, last[name])
			}
			last[name] = found
		}
	}
	sizes := 1
	for range rapid.IntRange(5, 60).Draw(r, "steps") {
		name := string(names[rapid.IntRange(0, len(names)-1).Draw(r, "name")])
		pause := time.Duration(rapid.IntRange(0, 3).Draw(r, "pause")) * 300 * time.Millisecond
		switch rapid.IntRange(0, 11).Draw(r, "step") {
		case 0, 1, 2:
			wanted[name] = true
			last[name] = 0
			keys.Set(name, rig.Key(name))
		case 3, 4:
			wanted[name] = false
			keys.Set(name)
		case 5, 6, 7:
			sizes++
			w, err := src.Get(ctx, rig.Key(name))
			if err == nil {
				w.Size = sizes
				_, err = src.Update(ctx, w)
			} else {
				_, err = src.Create(ctx, rig.NewWidget(name, sizes))
			}
			if err != nil {
				r.Fatal(err)
			}
			note(name, sizes)
			if rapid.Bool().Draw(r, "tell") {
				got, _ := src.Get(ctx, rig.Key(name))
				if err := inf.Tell(got); err != nil {
					r.Fatalf("Tell: %v", err)
				}
			}
		case 8:
			if _, err := src.Delete(ctx, rig.Key(name), ""); err == nil {
				note(name, 0)
			}
		case 9:
			src.set(func() { src.before, src.after = pause, pause/2 })
		case 10:
			src.set(func() { src.lag = pause })
		case 11:
			src.breakWatch(rapid.Bool().Draw(r, "gone"))
			src.set(func() { src.fails = rapid.IntRange(0, 2).Draw(r, "fails") })
		}
		rig.Sleep(pause)
		check()
	}
	src.set(func() { src.before, src.after, src.lag, src.fails = 0, 0, 0, 0 })
	rig.Sleep(10 * time.Minute)
	check()
	for _, c := range names {
		name := string(c)
		h := history[name]
		w, ok := inf.Store().Get(rig.Key(name))
		if want := h[len(h)-1].size; wanted[name] && (ok != (want != 0) || ok && w.Size != want) {
			r.Errorf("in the end %s is %v, want %d", name, w, want)
		}
	}
	if s := inf.Status(); s.Ahead != 0 {
		r.Errorf("%d keys are ahead", s.Ahead)
	}
}

// number is the version of the server.
func number(r *rapid.T, src *distant) (n int) {
	meta, err := src.Memory.List(context.Background(), metav1.ListOptions{Limit: 1},
		func(*rig.Widget, error) error { return nil })
	if err != nil {
		r.Fatal(err)
	}
	fmt.Sscan(meta.ResourceVersion, &n)
	return n
}

// A distant source is a Memory that is far away: its answers and events come late, and fail.
type distant struct {
	*lw.Memory[*rig.Widget]

	mu     sync.Mutex
	before time.Duration                               // guarded by mu, as all below: of a list, until the server sees it
	after  time.Duration                               // until its answer comes
	lag    time.Duration                               // of events
	fails  int                                         // how many requests fail
	parts  []string                                    // the field selectors of lists of parts
	lists  int                                         // of all
	cut    chan struct{}                               // ends the watch
	gone   bool                                        // the next watch is refused as expired
	pages  func(token string) (metav1.ListMeta, error) // what a list of a part in pages gets; nil: what it asks for
}

func newDistant(names ...string) *distant {
	d := &distant{Memory: lw.NewMemory[*rig.Widget](), cut: make(chan struct{})}
	d.Rewind("1")
	for _, name := range names {
		if _, err := d.Create(context.Background(), rig.NewWidget(name, 1)); err != nil {
			panic(err)
		}
	}
	return d
}

func (d *distant) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// failing reports whether the request fails.
func (d *distant) failing() error {
	if d.fails > 0 {
		d.fails--
		return errors.New("broken line")
	}
	return nil
}

func (d *distant) List(ctx context.Context, opts metav1.ListOptions,
	yield func(*rig.Widget, error) error) (metav1.ListMeta, error) {
	d.mu.Lock()
	before, after, pages, err := d.before, d.after, d.pages, d.failing()
	if request.PartOf(ctx) != nil {
		d.parts = append(d.parts, opts.FieldSelector)
	} else if !request.IsProbe(ctx) {
		d.lists++
	}
	d.mu.Unlock()
	if err != nil {
		return metav1.ListMeta{}, err
	}
	if pages != nil && request.PartOf(ctx) != nil && opts.Limit > 0 {
		return pages(opts.Continue)
	}
	_ = rest(ctx, before)
	var got []*rig.Widget
	meta, err := d.Memory.List(ctx, opts, func(w *rig.Widget, _ error) error {
		got = append(got, w)
		return nil
	})
	if err := rest(ctx, after); err != nil {
		return meta, err
	}
	for _, w := range got {
		if err == nil {
			err = yield(w, nil)
		}
	}
	return meta, err
}

func (d *distant) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	d.mu.Lock()
	cut, err, gone := d.cut, d.failing(), d.gone
	d.gone = false
	d.mu.Unlock()
	if gone {
		return apierrors.NewResourceExpired("too old")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-cut:
			cancel()
		case <-ctx.Done():
		}
	}()
	return d.Memory.Watch(ctx, opts, func(ev widgetEvent) error {
		d.mu.Lock()
		lag := d.lag
		d.mu.Unlock()
		if err := rest(ctx, lag); err != nil {
			return err
		}
		return yield(ev)
	})
}

// rest sleeps, at most until ctx is done, whose error it returns. It makes no timer that fires at
// once: two goroutines of a bubble that receive from such timers at one time crash Go 1.26's race
// detector, which takes them for one.
func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

func (d *distant) breakWatch(gone bool) {
	d.set(func() {
		close(d.cut)
		d.cut, d.gone = make(chan struct{}), gone
	})
}

// shown is what an informer shows of names: "a=1", or the state of what it does not show.
func shown(inf *lw.Informer[*rig.Widget], names ...string) string {
	var all []string
	for _, name := range names {
		text := name + ":" + inf.KeyState(rig.Key(name)).String()
		if w, ok := inf.Store().Get(rig.Key(name)); ok {
			text += fmt.Sprint("=", w.Size)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// A set wants what the objects of two collections name, until the last of them lets go.
func TestWantedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set lw.KeySet
		inf := rig.Run(t, lw.Wanted[*rig.Widget](newDistant("a", "b", "c"), &set), nil)
		// The widget "n" of size 1 names "a", of size 2 "a" and "b", of another none.
		named := func(w *rig.Widget) (keys []lw.Key) {
			for i := range w.Size {
				keys = append(keys, lw.Key{Namespace: "default", Name: string(rune('a' + i))})
			}
			return keys
		}
		one, two := lw.NewMemory(rig.NewWidget("n", 2)), lw.NewMemory(rig.NewWidget("n", 1), rig.NewWidget("m", 1))
		regs := []*lw.Registration{}
		for _, src := range []*lw.Memory[*rig.Widget]{one, two} {
			regs = append(regs, lw.WantedBy(&set, rig.Run(t, src, nil), named))
		}
		there := func() (names string) {
			synctest.Wait()
			for _, name := range []string{"a", "b", "c"} {
				if inf.KeyState(lw.Key{Namespace: "default", Name: name}) == lw.KeyThere {
					names += name
				}
			}
			return names
		}
		for _, step := range []struct {
			what string
			do   func()
			want string
		}{
			{"the first lists", func() { <-regs[0].Synced(); <-regs[1].Synced() }, "ab"},
			{"an update wants more", func() { rig.Update(t, two, "n", 3) }, "abc"},
			{"and less", func() { rig.Update(t, two, "n", 0) }, "ab"},
			{"a deletion lets go", func() {
				rig.OK(t, (rig.Plain[*rig.Widget]{Memory: one}).Delete(lw.Key{Namespace: "default", Name: "n"}))
			}, "a"},
			{"it comes again", func() { rig.Create(t, one, "n", 3) }, "abc"},
			{"the registration is removed", func() { regs[0].Remove(); <-regs[0].Done() }, "a"},
			{"the last one is, too", func() { regs[1].Remove() }, ""},
		} {
			step.do()
			rig.Same(t, step.what, step.want, there())
		}
	})
}

// A namespace that is added is listed alone, and one that is let go is Deleted.
func TestWantedNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, set := newDistant("a", "b"), &lw.NamespaceSet{}
		for _, ns := range []string{"one", "two"} {
			for _, name := range []string{"x", "y"} {
				w := rig.NewWidget(name, 1)
				w.Namespace = ns
				rig.Must[*rig.Widget](t)(src.Create(t.Context(), w))
			}
		}
		set.Set("me", "one")
		inf := rig.Run(t, lw.Wanted[*rig.Widget](src, set), nil)
		var calls rig.Calls
		inf.AddHandler(calls.Handler())
		synctest.Wait()
		calls.Take()
		set.Set("me", "one", "default")
		synctest.Wait()
		rig.Same(t, "lists of parts", []string{"metadata.namespace=default"}, src.parts)
		rig.Same(t, "objects", 4, inf.Store().Len())
		rig.Update(t, src.Memory, "a", 2)
		set.Set("me", "default")
		synctest.Wait()
		if diff := cmp.Diff(5, calls.Len()); diff != "" { // two come, one changes, two go
			t.Errorf("%v: %s", calls.Take(), diff)
		}
		if inf.Store().Len() != 2 || inf.KeyState(lw.Key{Namespace: "one", Name: "x"}) != lw.KeyUnwanted {
			t.Errorf("%d objects", inf.Store().Len())
		}
	})
}

// A secret is as large as those of Helm.
type secret struct {
	lw.Meta `json:"metadata"`
	Data    map[string][]byte `json:"data"`
}

// TestWantedHeap: of 5,000 Secrets of 32 KB, of which 20 are wanted, an informer keeps less than 10
// MB, also while it lists; of all it would keep 160.
func TestWantedHeap(t *testing.T) {
	const all, size, most = 5_000, 32 << 10, 10 << 20
	data := strings.Repeat("QUJD", size/3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		io.WriteString(w, `{"kind":"SecretList","metadata":{"resourceVersion":"9"},"items":[`)
		for i := range all {
			comma := ","
			if i == 0 {
				comma = ""
			}
			fmt.Fprintf(w, `%s{"metadata":{"name":"s%d","namespace":"default","uid":"u%d","resourceVersion":"%d"},"data":{"release":"`, comma, i, i, i%9+1)
			io.WriteString(w, data)
			io.WriteString(w, `"}}`)
		}
		io.WriteString(w, `]}`)
	}))
	t.Cleanup(server.Close)                                       // after the informer has stopped
	heap := func() int64 { rig.Heap(); return int64(rig.Heap()) } // collects twice
	empty := heap()
	var keys lw.KeySet
	for i := range 20 {
		keys.Set(fmt.Sprint(i), rig.Key(fmt.Sprint("s", i*200)))
	}
	inf := lw.NewInformer(lw.Wanted[*secret](&lw.HTTP[*secret]{URL: server.URL, Client: server.Client()}, &keys),
		&lw.Options{List: lw.ListWhole})
	rig.Start(t, inf)
	peak := int64(0)
	for !inf.Status().Synced {
		peak = max(peak, heap()-empty)
	}
	kept := heap() - empty
	if n := inf.Store().Len(); n != 20 || kept > most || peak > most {
		t.Errorf("%d Secrets, %d KB of the heap, and %d while it listed", n, kept>>10, peak>>10)
	}
	t.Logf("%d KB of the heap, and %d while it listed", kept>>10, peak>>10)
}
