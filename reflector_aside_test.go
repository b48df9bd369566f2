package lw_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// drift is a source of which so many objects cannot be read. Its watch sends changes of them, and measures what they cost.
type drift struct {
	aside  int
	good   bool // each second change can be read
	bytes  chan uint64
	events int
}

func (d *drift) bad(i int) error {
	return &lw.Error{Op: "decode", Key: key(strconv.Itoa(i)), Err: errors.New("the size is a text")}
}

func (d *drift) List(_ context.Context, _ metav1.ListOptions, yield func(*Widget, error) error) (metav1.ListMeta, error) {
	for i := range d.aside {
		if err := yield(nil, d.bad(i)); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: "10"}, yield(stamped("good", 1, "9"), nil)
}

func (d *drift) Watch(ctx context.Context, _ metav1.ListOptions, yield func(lw.WatchEvent[*Widget]) error) error {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range d.events {
		i := n / 2 % d.aside
		ev := lw.WatchEvent[*Widget]{Type: watch.Modified, ResourceVersion: strconv.Itoa(100 + n)}
		if d.good && n%2 == 0 {
			ev.Object = stamped(strconv.Itoa(i), 1, ev.ResourceVersion)
		} else {
			ev.Err = d.bad(i)
		}
		if err := yield(ev); err != nil {
			return err
		}
	}
	runtime.ReadMemStats(&after)
	d.bytes <- after.TotalAlloc - before.TotalAlloc
	<-ctx.Done()
	return ctx.Err()
}

// What an event of a bad object costs does not depend on how many are set aside. It copied them all.
func TestAsideCostsNoMoreWhenThereIsMore(t *testing.T) {
	for _, good := range []bool{false, true} {
		t.Run(fmt.Sprint("some are good again ", good), func(t *testing.T) {
			measure := func(aside int) uint64 {
				src := &drift{aside: aside, good: good, events: 2000, bytes: make(chan uint64, 1)}
				inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- inf.Run(ctx) }()
				bytes := <-src.bytes
				if n := len(inf.Status().SetAside); n != aside {
					t.Errorf("%d objects are set aside, want %d", n, aside)
				}
				cancel()
				<-done
				return bytes
			}
			few, many := measure(100), measure(20_000)
			if many > 10*few { // to copy them all was 200 times as much
				t.Errorf("2000 events cost %d bytes with 100 objects set aside, and %d with 20,000", few, many)
			}
		})
	}
}

// The version that is reported does not pass an event that was not applied, whatever comes after it, a relist included; once the
// object can be read, or is gone, or the server went back in time, it goes on.
func TestHeldVersion(t *testing.T) {
	bad := func(name, rv string) lw.WatchEvent[*Widget] {
		return lw.WatchEvent[*Widget]{
			Type: watch.Modified, ResourceVersion: rv, Err: &lw.Error{Op: "decode", Key: key(name), Err: errors.New("not a widget")},
		}
	}
	broken := func(rv string, objs ...*Widget) reply {
		return reply{obj: objs, bad: []error{bad("b", "").Err}, meta: metav1.ListMeta{ResourceVersion: rv}}
	}
	first := list("10", stamped("a", 1, "8"), stamped("b", 1, "9"))
	spoiled := func(evs ...lw.WatchEvent[*Widget]) stream {
		return stream{events: append([]lw.WatchEvent[*Widget]{bad("b", "11")}, evs...), after: time.Second, err: expired().err}
	}
	for name, tc := range map[string]struct {
		lists []reply
		last  []lw.WatchEvent[*Widget] // of the watch after the second list
		rv    string
		want  map[string]int
		aside int
		errs  int // of objects
	}{
		"a relist that cannot read it": {[]reply{first, broken("30", stamped("a", 3, "20"))}, nil, "10", map[string]int{"a": 3, "b": 1}, 1, 1},
		"events after that": {[]reply{first, broken("30", stamped("a", 3, "20"))},
			[]lw.WatchEvent[*Widget]{modified(stamped("a", 4, "31")), bookmark("40")}, "10", map[string]int{"a": 4, "b": 1}, 1, 1},
		"it can be read after that": {[]reply{first, broken("30", stamped("a", 3, "20"))},
			[]lw.WatchEvent[*Widget]{modified(stamped("b", 4, "31"))}, "31", map[string]int{"a": 3, "b": 4}, 0, 1},
		"it is deleted after that": {[]reply{first, broken("30", stamped("a", 3, "20"))},
			[]lw.WatchEvent[*Widget]{deleted(stamped("b", 4, "31"))}, "31", map[string]int{"a": 3}, 0, 1},
		"it is spoiled again": {[]reply{first, broken("30", stamped("a", 3, "20"))},
			[]lw.WatchEvent[*Widget]{bad("b", "31")}, "10", map[string]int{"a": 3, "b": 1}, 1, 2},
		"a relist that can read it": {[]reply{first, list("30", stamped("a", 3, "20"), stamped("b", 4, "11"))}, nil, "30", map[string]int{"a": 3, "b": 4}, 0, 1},
		"a relist without it":       {[]reply{first, list("30", stamped("a", 3, "20"))}, nil, "30", map[string]int{"a": 3}, 0, 1},
		// What was set aside by a list was never held: its list had no older state to keep.
		"only a list could not read it": {[]reply{broken("10", stamped("a", 1, "8")), broken("30", stamped("a", 3, "20"))}, nil, "30", map[string]int{"a": 3}, 1, 1},
		// The version of before means nothing there.
		"a new epoch that cannot read it": {[]reply{first, broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4"))},
			nil, "5", map[string]int{"a": 3, "b": 1}, 1, 1},
		"events of that": {[]reply{first, broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4")), broken("5", stamped("a", 3, "4"))},
			[]lw.WatchEvent[*Widget]{modified(stamped("a", 4, "6"))}, "6", map[string]int{"a": 4, "b": 1}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &script{lists: tc.lists, watches: []stream{spoiled(), events(tc.last...)}}
				if name == "only a list could not read it" {
					src.watches[0].events = nil
				}
				inf, errs := paged(t, src, 2*time.Minute)
				mustHold(t, inf.Store(), tc.rv, tc.want)
				if n := len(inf.Status().SetAside); n != tc.aside {
					t.Errorf("%d objects are set aside", n)
				}
				n := 0
				for _, err := range errs.all() {
					if e, ok := errors.AsType[*lw.Error](err); ok && e.Op == "decode" {
						n++
					}
				}
				if n != tc.errs {
					t.Errorf("%d errors of objects: %v", n, errs.all())
				}
			})
		})
	}
}

// A user's Sink is not told of what could not be read: it keeps what it had, where it can be asked for that, over a relist too.
func TestAsideBehindASink(t *testing.T) {
	bad := &lw.Error{Op: "decode", Key: key("b"), Err: errors.New("not a widget")}
	spoiled := func() *script {
		return &script{
			lists: []reply{
				list("10", stamped("a", 1, "8"), stamped("b", 1, "9")),
				{obj: []*Widget{stamped("a", 3, "20")}, bad: []error{bad}, meta: metav1.ListMeta{ResourceVersion: "30"}},
			},
			watches: []stream{
				{events: []lw.WatchEvent[*Widget]{
					{Type: watch.Modified, ResourceVersion: "11", Err: bad}, modified(stamped("a", 2, "12")), bookmark("13"),
				}, after: time.Second, err: expired().err},
				events(modified(stamped("a", 4, "31"))),
			},
		}
	}
	follow := func(t *testing.T, sink lw.Sink[*Widget], look func(r *lw.Reflector[*Widget])) {
		synctest.Test(t, func(t *testing.T) {
			r := lw.NewReflector[*Widget](spoiled(), sink, &lw.Options{List: lw.ListWhole, OnError: func(error) {}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			sleep(time.Minute)
			look(r)
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("that can be asked", func(t *testing.T) {
		store := lw.NewIndexer[*Widget]()
		follow(t, store, func(r *lw.Reflector[*Widget]) {
			mustHold(t, store, "10", map[string]int{"a": 4, "b": 1})
			if s := r.Status(); s.ResourceVersion != "10" || len(s.SetAside) != 1 {
				t.Errorf("status: %+v", s)
			}
		})
	})
	t.Run("that cannot", func(t *testing.T) {
		sink := &recorder{}
		follow(t, sink, func(r *lw.Reflector[*Widget]) {
			want := []string{"replace a1 b1", "MODIFIED a2", "replace a3", "MODIFIED a4"}
			if diff := cmp.Diff(want, sink.got); diff != "" {
				t.Errorf("calls of the sink (-want +got):\n%s", diff)
			}
		})
	})
}
