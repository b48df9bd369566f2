package why

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// A thing is an object of the tests.
type thing struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size   int                `json:"size"`
		At     *metav1.Time       `json:"at,omitempty"`
		Ports  []int              `json:"ports,omitempty"`
		Parts  []part2            `json:"parts,omitempty"`
		Sizes  map[string]float64 `json:"sizes,omitempty"`
		Secret string             `json:"-"`
		Port   intstr.IntOrString `json:"port"`
		Memory resource.Quantity  `json:"memory"`
		Next   *thing             `json:"next,omitempty"`
	} `json:"spec"`
	hidden int
}

type part2 struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

func newThing(name string, change ...func(*thing)) *thing {
	x := &thing{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, c := range change {
		c(x)
	}
	return x
}

func paths(old, new any) []string {
	fields, more := Fields(old, new)
	texts := []string{}
	for _, f := range fields {
		texts = append(texts, f.Path)
	}
	if more {
		texts = append(texts, "…")
	}
	return texts
}

func TestFields(t *testing.T) {
	untyped := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a",
			"resourceVersion": fmt.Sprint(len(spec))}, "spec": spec}}
	}
	at := metav1.NewTime(time.Unix(1700000000, 0))
	utc := metav1.NewTime(at.UTC())
	ring := newThing("a")
	ring.Spec.Next = ring
	ring2 := newThing("a")
	ring2.Spec.Next = ring2
	for name, tc := range map[string]struct {
		old, new any
		want     []string
	}{
		"nothing": {newThing("a"), newThing("a"), []string{}},
		"versions": {newThing("a", func(x *thing) { x.ResourceVersion, x.Generation = "1", 1 }), newThing("a"),
			[]string{}},
		"what JSON leaves out": {newThing("a", func(x *thing) { x.Spec.Secret, x.hidden = "s", 1 }), newThing("a"),
			[]string{}},
		"empty and absent": {newThing("a", func(x *thing) { x.Spec.Ports, x.Labels = []int{}, map[string]string{} }),
			newThing("a"), []string{}},
		"one time in two zones": {newThing("a", func(x *thing) { x.Spec.At = &at }),
			newThing("a", func(x *thing) { x.Spec.At = &utc }), []string{}},
		"a time": {newThing("a", func(x *thing) { x.Spec.At = &at }), newThing("a"), []string{"spec.at"}},
		"a port": {newThing("a", func(x *thing) { x.Spec.Port = intstr.FromString("http") }),
			newThing("a", func(x *thing) { x.Spec.Port = intstr.FromInt32(80) }), []string{"spec.port"}},
		"one quantity": {newThing("a", func(x *thing) { x.Spec.Memory = resource.MustParse("1024Mi") }),
			newThing("a", func(x *thing) { x.Spec.Memory = resource.MustParse("1Gi") }), []string{}},
		"lists of one length": {newThing("a", func(x *thing) { x.Spec.Ports = []int{1, 2} }),
			newThing("a", func(x *thing) { x.Spec.Ports = []int{1, 3} }), []string{"spec.ports[1]"}},
		"lists of two lengths": {newThing("a", func(x *thing) { x.Spec.Ports = []int{1, 2} }),
			newThing("a", func(x *thing) { x.Spec.Ports = []int{2} }), []string{"spec.ports"}},
		"named elements": {
			newThing("a", func(x *thing) { x.Spec.Parts = []part2{{"x", 1}, {"y", 1}, {"z", 1}} }),
			newThing("a", func(x *thing) { x.Spec.Parts = []part2{{"w", 1}, {"z", 1}, {"y", 2}} }),
			[]string{"spec.parts[w]", "spec.parts[x]", "spec.parts[y].n"},
		},
		"two of one name": {newThing("a", func(x *thing) { x.Spec.Parts = []part2{{"x", 1}, {"x", 1}} }),
			newThing("a", func(x *thing) { x.Spec.Parts = []part2{{"x", 1}, {"x", 2}} }), []string{"spec.parts[1].n"}},
		"a map": {newThing("a", func(x *thing) { x.Spec.Sizes = map[string]float64{"a.b": 1, "c": 2} }),
			newThing("a", func(x *thing) { x.Spec.Sizes = map[string]float64{"a.b": 2, "d": 2} }),
			[]string{"spec.sizes.a.b", "spec.sizes.c", "spec.sizes.d"}},
		"rings": {ring, ring2, []string{}},
		"an object that comes": {newThing("a"), newThing("a", func(x *thing) { x.Spec.At, x.Spec.Next = &at, newThing("b") }),
			[]string{"spec.at", "spec.next.metadata.name", "spec.next.metadata.namespace", "spec.next.spec.memory",
				"spec.next.spec.port", "spec.next.spec.size"}},
		"a list that comes": {newThing("a"), newThing("a", func(x *thing) { x.Spec.Parts = []part2{{"x", 1}} }),
			[]string{"spec.parts"}},
		"an element, untyped": {untyped(map[string]any{"b": []any{map[string]any{"name": "x"},
			map[string]any{"name": "y"}}}), untyped(map[string]any{"b": []any{map[string]any{"name": "y"}}}),
			[]string{"spec.b[x]"}},
		"untyped": {untyped(map[string]any{"a": int64(1),
			"b": []any{map[string]any{"type": "Ready", "on": true}}}),
			untyped(map[string]any{"a": "1", "b": []any{map[string]any{"type": "Ready", "on": false}}}),
			[]string{"spec.a", "spec.b[Ready].on"}},
		"untyped, absent": {untyped(nil), untyped(map[string]any{"a": int64(1), "n": nil, "o": map[string]any{}}),
			[]string{"spec.a"}},
		"another type": {newThing("a"), untyped(nil), []string{"metadata.namespace", "spec.memory", "spec.port",
			"spec.size"}},
		"no object": {nil, newThing("a"), []string{}},
		"of many fields, 8": {newThing("a"), newThing("a", func(x *thing) {
			x.Labels = map[string]string{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": "", "8": "", "9": ""}
		}), []string{"metadata.labels.1", "metadata.labels.2", "metadata.labels.3", "metadata.labels.4", "metadata.labels.5",
			"metadata.labels.6", "metadata.labels.7", "metadata.labels.8", "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, paths(tc.old, tc.new)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The writer of a field is the last one of those that manage it, and rather one that has just
// written.
func TestWriter(t *testing.T) {
	entry := func(manager, fields string, second int64) metav1.ManagedFieldsEntry {
		at := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const size, whole, label = `{"f:spec":{"f:size":{}}}`, `{"f:spec":{}}`,
		`{"f:metadata":{"f:labels":{".":{},"f:a.b/c":{}}}}`
	for name, tc := range map[string]struct {
		old, new []metav1.ManagedFieldsEntry
		change   func(*thing)
		want     string
	}{
		"none":              {nil, nil, nil, ""},
		"one":               {nil, []metav1.ManagedFieldsEntry{entry("a", size, 1)}, nil, "a"},
		"of something else": {nil, []metav1.ManagedFieldsEntry{entry("a", label, 1)}, nil, ""},
		"of the whole":      {nil, []metav1.ManagedFieldsEntry{entry("a", whole, 1)}, nil, "a"},
		"the last": {nil, []metav1.ManagedFieldsEntry{entry("a", size, 1), entry("b", size, 3),
			entry("c", size, 2)}, nil, "b"},
		"who has just written": {[]metav1.ManagedFieldsEntry{entry("a", size, 3)},
			[]metav1.ManagedFieldsEntry{entry("a", size, 3), entry("b", size, 3)}, nil, "b"},
		"no fields": {nil, []metav1.ManagedFieldsEntry{entry("a", "[]", 1)}, nil, ""},
		"a label with dots": {nil, []metav1.ManagedFieldsEntry{entry("a", size, 1), entry("b", label, 1)},
			func(x *thing) { x.Labels = map[string]string{"a.b/c": "1"} }, "b"},
		"who has taken it away": {[]metav1.ManagedFieldsEntry{entry("a", size, 1)},
			[]metav1.ManagedFieldsEntry{entry("a", size, 1), entry("b", `{"f:metadata":{}}`, 2)}, nil, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.change == nil {
				tc.change = func(x *thing) { x.Spec.Size = 1 }
			}
			old, now := newThing("a"), newThing("a", tc.change)
			old.ManagedFields, now.ManagedFields = tc.old, tc.new
			fields, _ := Fields(old, now)
			if len(fields) != 1 || fields[0].Manager != tc.want {
				t.Errorf("%+v, want %q", fields, tc.want)
			}
		})
	}
	old := newThing("a", func(x *thing) { x.Labels = map[string]string{"a.b/c": "1"} })
	old.ManagedFields = []metav1.ManagedFieldsEntry{entry("a", label, 1), entry("b", size, 1)}
	now := newThing("a")
	now.ManagedFields = []metav1.ManagedFieldsEntry{entry("b", size, 1), entry("c", `{}`, 2)}
	if fields, _ := Fields(old, now); len(fields) != 1 || fields[0].Manager != "c" {
		t.Errorf("of a field that is gone: %+v", fields)
	}
}

// told calls f as the handler of collection is called.
func told(c *Call, typ, cause uint8, old, new any, f func()) {
	c.Begin(typ, cause, old, new)
	f()
	c.End()
}

// A model of a queue: of each key it knows which objects the last run has seen.
func TestReasonsAreNetChanges(t *testing.T) {
	wanted.Store(true)
	rapid.Check(t, func(t *rapid.T) {
		q := New[string](rapid.Bool().Draw(t, "priorities"))
		call := Enter("things")
		defer call.Leave()
		type state = map[string]*thing
		now, seen, touched := state{}, map[string]state{"k1": {}, "k2": {}}, map[string]map[string]int{"k1": {}, "k2": {}}
		objects := []string{"a", "b", "c"}
		keysOf := map[string][]string{"a": {"k1"}, "b": {"k1", "k2"}, "c": {"k2", "k2"}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom(objects).Draw(t, "object")
			was, typ, next := now[name], uint8(Added),
				newThing(name, func(x *thing) { x.Spec.Size = rapid.IntRange(0, 2).Draw(t, "size") })
			key := rapid.SampledFrom([]string{"", "", "", "k1", "k2"}).Draw(t, "run")
			switch {
			case key != "":
				q.Taken(key)
				want := []string{}
				for _, o := range objects {
					if touched[key][o] == 0 {
						continue
					}
					before, after, what := seen[key][o], now[o], "none"
					switch {
					case before == nil && after != nil:
						what = "added"
					case before != nil && after == nil:
						what = "deleted"
					case before != nil && before.Spec.Size != after.Spec.Size:
						what = "updated spec.size"
					case before != nil && touched[key][o] == 1:
						what = "updated "
					}
					want = append(want, fmt.Sprint(o, " ", what, " ", touched[key][o]))
				}
				got := []string{}
				for _, r := range q.Of(key) {
					text := []string{"none", "added", "updated", "deleted"}[r.Type]
					if r.Type == Updated {
						fields, _ := r.Fields()
						text += " "
						for _, f := range fields {
							text += f.Path
						}
					}
					got = append(got, fmt.Sprint(r.Key.Name, " ", text, " ", r.Events))
				}
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("run of %s (-want +got):\n%s", key, diff)
				}
				q.Done(key)
				seen[key], touched[key] = state{}, map[string]int{}
				for o, x := range now {
					seen[key][o] = x
				}
				continue
			case was != nil && rapid.Bool().Draw(t, "delete"):
				typ, next = Deleted, nil
			case was != nil:
				typ = Updated
			}
			old, new := any(was), any(next)
			if was == nil {
				old = nil
			}
			if next == nil {
				new = nil
				delete(now, name)
			} else {
				now[name] = next
			}
			told(call, typ, 2, old, new, func() {
				for _, k := range keysOf[name] {
					q.Adding(k, 0, false)
				}
			})
			for _, k := range slices.Compact(slices.Clone(keysOf[name])) {
				touched[k][name]++
			}
		}
	})
}

// What is kept has a bound, for keys, for old versions and for what is tracked.
func TestBounds(t *testing.T) {
	q := New[int](false)
	call := Enter("things")
	defer call.Leave()
	const n = mostKeys + 10
	for i := range n {
		old, now := newThing(fmt.Sprint(i)), newThing(fmt.Sprint(i), func(x *thing) { x.Spec.Size = 1 })
		if i == mostOld {
			told(call, Updated, 2, *old, *now, func() { q.Adding(i, 0, false) }) // a comparison of these would panic
			continue
		}
		told(call, Updated, 2, old, now, func() { q.Adding(i, 0, false) })
	}
	if q.old != mostOld {
		t.Errorf("%d old versions", q.old)
	}
	known, fields, unknown := 0, 0, 0
	for i := range n {
		q.Taken(i)
		for _, r := range q.Of(i) {
			if r.Requeue == Unknown {
				unknown++
				continue
			}
			known++
			if f, _ := r.Fields(); len(f) > 0 {
				fields++
			}
		}
		q.Done(i)
	}
	if known != mostKeys || fields != mostOld || unknown != 10 || q.old != 0 || q.waiting != 0 || q.busy != 0 ||
		len(q.keys) > mostTracked {
		t.Errorf("%d known, %d with fields, %d unknown; left: %d old, %d waiting, %d tracked", known, fields, unknown, q.old,
			q.waiting, len(q.keys))
	}
	if q.Failed(n+1, errors.New("x")); len(q.keys) > mostTracked {
		t.Error("a key that is not known was noted")
	}
}

// In a queue with priorities an addition takes the place of one that is delayed; in another it does
// not, and both come.
func TestDelays(t *testing.T) {
	for _, replace := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q := New[string](replace)
			call := Enter("things")
			defer call.Leave()
			texts := func() (texts []string) {
				q.Taken("k")
				defer q.Done("k")
				for _, r := range q.Of("k") {
					texts = append(texts, r.Collection+r.Requeue.String())
				}
				return texts
			}
			q.Adding("k", time.Hour, false)
			told(call, Added, 2, nil, newThing("a"), func() { q.Adding("k", 0, false) })
			got := [][]string{texts()}
			time.Sleep(time.Hour)
			got = append(got, texts())
			want := [][]string{{"things"}, nil}
			if !replace {
				want[1] = []string{"added after"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("replace %t: %s", replace, diff)
			}
		})
	}
}

// Where nobody asks for reasons a handler costs nothing.
func TestOff(t *testing.T) {
	was := wanted.Swap(false)
	defer wanted.Store(was)
	if n := testing.AllocsPerRun(100, func() {
		if c := Enter("things"); c != nil {
			t.Error("a handler tells what it is called for")
		} else {
			c.Leave()
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A handler of an event is a goroutine: calls at the same time do not mix, and one that has
// panicked, or has ended, is over.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](false)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				call := Enter(fmt.Sprint("things-", i))
				defer call.Leave()
				for range 20 {
					x := newThing(fmt.Sprint(i))
					told(call, Added, 2, nil, x, func() {
						time.Sleep(time.Millisecond)
						all.Go(func() { q.Adding(fmt.Sprint("other-", i), 0, false) })
						q.Adding(fmt.Sprint(i), 0, false)
					})
				}
				q.Adding(fmt.Sprint("after-", i), 0, false)
			})
		}
		all.Wait()
		for i := range 50 {
			for key, want := range map[string]string{fmt.Sprint(i): fmt.Sprint("things-", i), fmt.Sprint("other-", i): "",
				fmt.Sprint("after-", i): ""} {
				q.Taken(key)
				if got := q.Of(key); len(got) != 1 || got[0].Collection != want {
					t.Errorf("%s: %+v", key, got)
				}
			}
		}
		calls.Range(func(g, c any) bool { t.Errorf("%v is left", c); return true })
	})
}

// The board has the queues until they go, and two of one name.
func TestShow(t *testing.T) {
	board, other := new(int), new(int)
	*other = 1
	q := New[string](false)
	one, two := Show(board, "a", q.Status), Show(board, "a", q.Status)
	q.Adding("k", 0, false)
	q.Taken("k")
	names := func(b any) (names []string) {
		for _, s := range On(b) {
			names = append(names, fmt.Sprint(s.Name, " ", s.Runs, " ", s.Busy))
		}
		return names
	}
	if got := strings.Join(names(board), ","); got != "a 1 1,a#2 1 1" {
		t.Error(got)
	}
	one()
	one()
	two()
	if got := append(names(board), names(other)...); got != nil || len(boards.of) != 0 {
		t.Error(got)
	}
}
