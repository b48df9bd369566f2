package handlers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// mustBeBehind checks what a status says of a measure: how many there were, their times summed up,
// and both quantiles, which are rounded up by less than a fifth. half < 0: there is none any more.
func mustBeBehind(t *testing.T, s lw.Status, by string, count uint64, sum, half, most time.Duration) {
	t.Helper()
	q := s.Behind[by]
	if s.BehindCount[by] != count || s.BehindSum[by] != sum {
		t.Errorf("%s: %d with %v in all, want %d, %v", by, s.BehindCount[by], s.BehindSum[by], count, sum)
	}
	if half < 0 {
		if len(q) > 0 {
			t.Errorf("%s: %v, want none", by, q)
		}
		return
	}
	if got := q[0.5]; got < half || got > half*6/5 {
		t.Errorf("%s: half within %v, want %v", by, got, half)
	}
	if got := q[0.99]; got < most || got > most*6/5 {
		t.Errorf("%s: 99 %% within %v, want %v", by, got, most)
	}
}

// TestBehindTold: a told version that the watch reaches later is a measurement, and only the first
// time that it does; not one that is passed, overwritten, listed, or of a deletion nobody knows
// when.
func TestBehindTold(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		count        uint64
		sum, half    time.Duration
		most         time.Duration
	}{
		{"none was told", "M a@11", 0, 0, -1, 0},
		{"its event", "tell a@12, sleep 3s, M a@12, M a@13", 1, 3 * time.Second, 3 * time.Second, 3 * time.Second},
		{"the watch was there first", "M a@12, tell a@12, sleep 3s, M a@13", 0, 0, -1, 0},
		{"the write moves it out of the selection", "tell a@12, sleep 2s, D a@12", 1, 2 * time.Second, 2 * time.Second,
			2 * time.Second},
		{"a deletion", "gone a@12/u, sleep 2s, D a@12", 1, 2 * time.Second, 2 * time.Second, 2 * time.Second},
		{"a deletion, its version unknown", "server 14, gone a, sleep 2s, D a@12, B 14", 0, 0, -1, 0},
		{"a bookmark passes it", "tell a@12, sleep 50s, B 13", 0, 0, -1, 0},
		{"overwritten", "tell a@12, sleep 50s, M a@13", 0, 0, -1, 0},
		{"an event of before", "tell a@12, sleep 1s, M a@11, sleep 1s, M a@12", 1, 2 * time.Second, 2 * time.Second,
			2 * time.Second},
		{"two", "tell a@12, sleep 1ms, M a@12, tell a@13, sleep 8s, M a@13", 2, 8001 * time.Millisecond, time.Millisecond,
			8 * time.Second},
		{"long ago", "tell a@12, sleep 3s, M a@12, sleep 11m", 1, 3 * time.Second, -1, 0},
		{"almost as long", "tell a@12, sleep 3s, M a@12, sleep 8m", 1, 3 * time.Second, 3 * time.Second, 3 * time.Second},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			d := dictate(t, false, nil)
			d.run(t, "list 10 a@5, start, "+tt.script)
			mustBeBehind(t, d.inf.Status(), "told", tt.count, tt.sum, tt.half, tt.most)
		})
	}
}

// TestBehindAsked: what CatchUp asks for is a measurement, one for each question. Of three that ask
// at once the later two share one, which comes 100 ms after the first.
func TestBehindAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dictate(t, false, nil)
		d.run(t, "list 10 a@5, start, server 12")
		caught := make(chan error)
		for range 3 {
			go func() {
				_, err := d.inf.CatchUp(t.Context())
				caught <- err
			}()
			synctest.Wait()
		}
		d.run(t, "sleep 4s, M a@12")
		for range 3 {
			rig.OK(t, <-caught)
		}
		mustBeBehind(t, d.inf.Status(), "asked", 2, 7900*time.Millisecond, 3900*time.Millisecond, 4*time.Second)
		if took := mustCatchUp(t, d.inf, "12"); took > time.Second {
			t.Errorf("it took %v", took)
		}
		mustBeBehind(t, d.inf.Status(), "asked", 3, 7900*time.Millisecond, 3900*time.Millisecond, 4*time.Second)
	})
}

// TestBehindWritten: the managed fields say when an object was written, by a clock that is not
// ours.
func TestBehindWritten(t *testing.T) {
	t.Run("typed", func(t *testing.T) {
		behindWritten(t, func(name, version string, at ...time.Time) *metav1.PartialObjectMetadata {
			obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
			for _, at := range at {
				obj.ManagedFields = append(obj.ManagedFields, metav1.ManagedFieldsEntry{Manager: "m", Time: &metav1.Time{Time: at}})
			}
			return obj
		})
	})
	t.Run("unstructured", func(t *testing.T) {
		behindWritten(t, func(name, version string, at ...time.Time) *unstructured.Unstructured {
			var entries []any
			for _, at := range at {
				entries = append(entries, map[string]any{"manager": "m", "time": at.UTC().Format(time.RFC3339)})
			}
			metadata := map[string]any{"name": name, "resourceVersion": version, "managedFields": entries}
			return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
		})
	})
}

func behindWritten[T lw.Object](t *testing.T, obj func(name, version string, at ...time.Time) T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory[T]()
		inf := lw.NewInformer(m, &lw.Options{WatchTimeout: 24 * time.Hour, OnError: func(error) {}})
		rig.Start(t, inf)
		const ahead = 90 * time.Second // the server's clock
		version := map[string]string{}
		write := func(name string, late time.Duration, more ...time.Time) {
			t.Helper()
			o := obj(name, version[name], append(more, time.Now().Add(ahead-late).Truncate(time.Second))...)
			do := m.Update
			if version[name] == "" {
				do = m.Create
			}
			version[name] = rig.Must[T](t)(do(t.Context(), o)).GetResourceVersion()
			rig.Sleep(2 * time.Second)
		}
		rig.Sleep(time.Until(time.Now().Truncate(time.Second).Add(5 * time.Second)))
		old := time.Now().Add(-time.Hour)
		write("a", 0, old)
		write("b", 9*time.Second, old)
		sum := 8 * time.Second // less the second that the server may have cut off
		mustBeBehind(t, inf.Status(), "written", 2, sum, 0, sum)
		o := obj("b", version["b"], time.Now().Add(ahead-11*time.Second).Truncate(time.Second), old)
		version["b"] = rig.Must[T](t)(m.Update(t.Context(), o)).GetResourceVersion()
		rig.Sleep(2 * time.Second)
		mustBeBehind(t, inf.Status(), "written", 2, sum, 0, sum) // its fields say the same: as after a binding

		rig.Sleep(2 * time.Hour) // the least gap is forgotten
		write("a", 20*time.Second)
		write("a", 0)
		write("a", 20*time.Second)
		mustBeBehind(t, inf.Status(), "written", 4, sum, 0, 0)
		write("b", 20*time.Second)
		mustBeBehind(t, inf.Status(), "written", 5, sum+19*time.Second, 0, 19*time.Second)

		from := inf.Status().BehindCount["written"]
		for i := range 10 { // about one in a second
			rig.Must[T](t)(m.Create(t.Context(), obj(fmt.Sprint("c", i), "", time.Now())))
			rig.Sleep(100 * time.Millisecond)
		}
		if got := inf.Status().BehindCount["written"] - from; got < 1 || got > 2 {
			t.Errorf("%d of ten in a second are looked at", got)
		}
	})
}

// TestBehindNothing: what has no managed fields is not measured, and a deletion is not either.
func TestBehindNothing(t *testing.T) {
	inMemory(t, "a1", rig.Quiet(), func(t *testing.T, m memory, inf informer) {
		rig.Update(t, m, "a", 2)
		rig.Remove(t, m, "a")
		synctest.Wait()
		s := inf.Status()
		if s.Behind != nil || s.BehindCount != nil || s.BehindSum != nil {
			t.Errorf("%v, %v, %v", s.Behind, s.BehindCount, s.BehindSum)
		}
	})
}
