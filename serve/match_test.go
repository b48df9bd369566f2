package serve

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/serve/internal/order"
)

// longSelector returns a selector of about so many bytes, which selects what has the label on.
func longSelector(bytes int, on string) metav1.ListOptions {
	text := "on=" + on
	for n := 0; len(text) < bytes; n++ {
		text += fmt.Sprintf(",!a%d", n)
	}
	return metav1.ListOptions{LabelSelector: text}
}

func client(name string) func() string { return func() string { return name } }

// Long selectors that are equal are one, and match each event once; short ones cost nothing.
func TestEqualSelectorsMatchOnce(t *testing.T) {
	c, _, _ := testWatcher(t, time.Hour)
	parse := func(namespace string, opts metav1.ListOptions, name string) *filter {
		t.Helper()
		f, err := c.filters.parse(c.resource, namespace, opts, client(name))
		rig.OK(t, err)
		return f
	}
	long := longSelector(longSelectors, "yes")
	a, b := parse("n", long, "a"), parse("n", long, "b")
	if a.verdicts() == nil || a.verdicts() != b.verdicts() || a.shared.turn == b.shared.turn {
		t.Error("equal selectors of two clients are two, or their turn is one")
	}
	if again := parse("n", longSelector(longSelectors, "no"), "a"); again.shared.turn != a.shared.turn {
		t.Error("two selectors of a client have two turns")
	}
	for what, other := range map[string]*filter{
		"namespace": parse("m", long, "a"),
		"labels":    parse("n", longSelector(longSelectors, "no"), "a"),
		"fields": parse("n", metav1.ListOptions{FieldSelector: "metadata.name!=" + strings.Repeat("x", longSelectors)},
			"a"),
		"both": parse("n", metav1.ListOptions{LabelSelector: long.LabelSelector, FieldSelector: "metadata.name!=x"},
			"a"),
		"none": parse("n", metav1.ListOptions{}, "a"),
	} {
		if other.verdicts() == a.verdicts() {
			t.Errorf("selectors with another %s are the same", what)
		}
	}
	if short := parse("n", metav1.ListOptions{LabelSelector: "on=yes"}, "a"); short.shared != nil {
		t.Error("a short selector is a long one")
	}
	half := strings.Repeat("x", longSelectors/2)
	if f := parse("n", metav1.ListOptions{LabelSelector: "a!=" + half[:60] + strings.Repeat(",on", 70),
		FieldSelector: "metadata.name!=" + half}, "a"); f.shared == nil {
		t.Error("two selectors that are long together are short")
	}
	wrong := longSelector(longSelectors, "yes")
	wrong.LabelSelector += ",!"
	if _, err := c.filters.parse(c.resource, "n", wrong, client("a")); err == nil {
		t.Error("a wrong selector is accepted")
	}

	// What an event is for one of them it is for the other, and the next event is another one.
	on, off := testItem("n/a", 2), testItem("n/a", 3)
	on.labels = map[string]string{"on": "yes"}
	for at, e := range map[place]*event{{position: 1}: {new: on}, {position: 2}: {old: on, new: off},
		{position: 1 + maxRead}: {old: off}} {
		for range 2 {
			was, is := a.change(at, e)
			if was != a.matches(e.old) || is != a.matches(e.new) {
				t.Errorf("%+v: %t, %t", at, was, is)
			}
			if w, i := b.change(at, &event{old: on, new: on}); w != was || i != is {
				t.Errorf("%+v is matched again", at)
			}
		}
	}
}

func (f *filter) verdicts() *verdicts {
	if f.shared == nil {
		return nil
	}
	return f.shared.verdicts
}

// While the selectors of a client are matched, its others wait, and those of no other client.
func TestMatchingHoldsUpNobodyElse(t *testing.T) {
	c, w, out := testWatcher(t, time.Hour)
	i := testItem("n/a", 3)
	c.history.commit([]*event{{version: 3, new: i}}, 3)
	var state order.List[*item]
	state.Set("n/a", i)
	f, err := c.filters.parse(c.resource, "", longSelector(2000, "a"), client("a"))
	rig.OK(t, err)
	f.shared.turn.Lock()
	var waiting sync.WaitGroup
	var own atomic.Int32 // of the client's matches are done
	for _, tt := range []struct {
		client string
		opts   metav1.ListOptions
		waits  bool
	}{
		{"a", longSelector(2000, "a"), true}, {"a", longSelector(2000, "b"), true},
		{"b", longSelector(2000, "a"), false}, {"b", longSelector(2000, "c"), false}, {"a", metav1.ListOptions{}, false},
	} {
		f, err := c.filters.parse(c.resource, "", tt.opts, client(tt.client))
		rig.OK(t, err)
		watch := *w
		watch.filter = f
		for _, match := range []func(){
			func() {
				if _, err := watch.step(out, nil); err != nil {
					t.Error(err)
				}
			},
			func() {
				for range f.selected(&state, "") {
				}
			},
		} {
			if !tt.waits {
				match() // or the test hangs
				continue
			}
			waiting.Go(func() { match(); own.Add(1) })
		}
		runtime.Gosched()
	}
	rig.Same(t, "matches of the client that have not waited", 0, own.Load())
	f.shared.turn.Unlock()
	waiting.Wait()
}

// What nobody uses any more is forgotten, also if its key is used again.
func TestInterned(t *testing.T) {
	var all weakMap[string, turn]
	made := 0
	get := func(key string) *turn {
		v, err := all.get(key, func() (*turn, error) { made++; return &turn{client: key}, nil })
		rig.OK(t, err)
		return v
	}
	a := get("a")
	if b := get("b"); get("a") != a || b == a || made != 2 {
		t.Errorf("%d values were made", made)
	}
	if _, err := all.get("c", func() (*turn, error) { return nil, errors.New("no") }); err == nil || len(all.all) != 2 {
		t.Errorf("%v, %d values", err, len(all.all))
	}
	left := func() int {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.all)
	}
	for left() != 1 { // b
		runtime.GC()
		runtime.Gosched()
	}
	all.forget("a") // as if its cleanup came late
	if get("a") != a {
		t.Error("what is used is forgotten")
	}
	runtime.KeepAlive(a)
}

// Of two who create the value of a key at once both get the first one.
func TestInternedOnce(t *testing.T) {
	var n weakMap[string, turn]
	a, b := &turn{client: "a"}, &turn{client: "b"}
	if n.of("k", a) != a || n.of("k", b) != a || n.of("k", nil) != a {
		t.Error("a key has two values")
	}
	runtime.KeepAlive(a)
}
