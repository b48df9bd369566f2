package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A settable object has a metav1.Object's setters and labels, and no DeepCopyObject.
type settable struct {
	metav1.ObjectMeta
	Size int
}

type nested struct{ rig.Base }

// A byBase object embeds its Meta through a struct that only this package can write to.
type (
	byBase struct{ base }
	base   struct{ lw.Meta }
)

// A byPointer object shares its Meta with its copies.
type byPointer struct{ *lw.Meta }

// A byMap object is no struct.
type byMap map[string]string

func (m byMap) GetNamespace() string       { return m["namespace"] }
func (m byMap) GetName() string            { return m["name"] }
func (m byMap) GetUID() types.UID          { return types.UID(m["uid"]) }
func (m byMap) GetResourceVersion() string { return m["version"] }

// A boxed object is no pointer to one.
type boxed struct{ metav1.Object }

func partial(name string, labels map[string]string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}}
}

func TestMemoryTypes(t *testing.T) {
	t.Run("metav1.Object with DeepCopyObject", func(t *testing.T) { testMemoryType(t, partial("a", nil)) })
	t.Run("metav1.Object", func(t *testing.T) { testMemoryType(t, &settable{ObjectMeta: metav1.ObjectMeta{Name: "a"}}) })
	t.Run("Meta", func(t *testing.T) { testMemoryType(t, rig.NewWidget("a", 1)) })
	t.Run("Meta in a struct", func(t *testing.T) { testMemoryType(t, &nested{rig.Base{Meta: lw.Meta{Name: "a"}}}) })
	t.Run("unstructured", func(t *testing.T) {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName("a")
		testMemoryType(t, u)
	})
}

// testMemoryType checks that a write stamps a copy of obj, and leaves obj alone.
func testMemoryType[T lw.Object](t *testing.T, obj T) {
	m := lw.NewMemory[T]()
	created, err := m.Create(t.Context(), obj)
	rig.OK(t, err)
	if obj.GetUID() != "" || obj.GetResourceVersion() != "" {
		t.Errorf("Create wrote to its argument: %v", lw.MetaOf(obj))
	}
	got, gone := m.Get(t.Context(), lw.KeyOf(obj))
	if gone != nil || got == created {
		t.Fatalf("Get = %v, %v, want a copy", got, gone == nil)
	}
	if created.GetUID() == "" || created.GetResourceVersion() != m.ResourceVersion() {
		t.Errorf("created as %v at version %s", lw.MetaOf(created), m.ResourceVersion())
	}
	rig.Same(t, "Get", lw.MetaOf(created), lw.MetaOf(got))
	for listed := range m.All() {
		if rig.Same(t, "All", lw.MetaOf(created), lw.MetaOf(listed)); listed == got {
			t.Error("All and Get have handed out one object")
		}
	}
}

func TestNewMemoryPanics(t *testing.T) {
	const neither = " has neither metav1.Object nor an embedded lw.Meta"
	for _, tt := range []struct {
		name string
		f    func()
		want string
	}{
		{"nothing to write to", func() { lw.NewMemory[*rig.ReadOnly]() }, "ReadOnly" + neither},
		{"a shared Meta", func() { lw.NewMemory[*byPointer]() }, "byPointer" + neither},
		{"what reflect cannot write to", func() { lw.NewMemory[*byBase]() }, "byBase" + neither},
		{"what is no struct", func() { lw.NewMemory[*byMap]() }, "byMap" + neither},
		{"what is no pointer", func() { lw.NewMemory[boxed]() }, "boxed" + neither},
		{"two of a name", func() { lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("a", 2)) },
			`widgets "a" already exists`},
	} {
		t.Run(tt.name, func(t *testing.T) { rig.PanicsWith(t, "lw: NewMemory: "+tt.want, tt.f) })
	}
}

func TestMemoryWriteErrors(t *testing.T) {
	other := rig.NewWidget("a", 2)
	other.UID = "other"
	stale, odd := rig.NewWidget("a", 2), rig.NewWidget("a", 2)
	stale.ResourceVersion, odd.ResourceVersion = "2", "v3"
	type write = func(*lw.Memory[*rig.Widget]) error
	update := func(w *rig.Widget) write {
		return func(m *lw.Memory[*rig.Widget]) error { return second(m.Update(t.Context(), w)) }
	}
	create := func(w *rig.Widget) write {
		return func(m *lw.Memory[*rig.Widget]) error { return second(m.Create(t.Context(), w)) }
	}
	transact := func(objs ...*rig.Widget) write {
		return func(m *lw.Memory[*rig.Widget]) error { return second(m.Transact(t.Context(), objs)) }
	}
	remove := func(name, version string) write {
		return func(m *lw.Memory[*rig.Widget]) error { return second(m.Delete(t.Context(), rig.Key(name), version)) }
	}
	over := rig.Canceled(t)
	for _, tt := range []struct {
		name string
		do   write
		is   func(error) bool
		says string
	}{
		{"create one that is there", create(rig.NewWidget("a", 1)), apierrors.IsAlreadyExists, `"a"`},
		{"create without a name", create(rig.NewWidget("", 1)), apierrors.IsInvalid, "metadata.name"},
		{"create nil", create(nil), apierrors.IsBadRequest, "create: nil Widget"},
		{"update one that is not there", update(rig.NewWidget("b", 1)), apierrors.IsNotFound, `"b"`},
		{"update an older version", update(stale), apierrors.IsConflict, "resource version 3, not 2"},
		{"update another object", update(other), apierrors.IsConflict, "not other"},
		{"update no version", update(odd), apierrors.IsBadRequest, `update default/a: invalid resource version "v3"`},
		{"transact an older version", transact(rig.NewWidget("new", 1), stale), apierrors.IsConflict,
			"resource version 3, not 2"},
		{"transact another object", transact(rig.NewWidget("new", 1), other), apierrors.IsConflict, "not other"},
		{"transact no version", transact(rig.NewWidget("new", 1), odd), apierrors.IsBadRequest,
			`transact default/a: invalid resource version "v3"`},
		{"transact nil", transact(rig.NewWidget("new", 1), nil), apierrors.IsBadRequest, "transact: nil Widget"},
		{"delete one that is not there", remove("b", ""), apierrors.IsNotFound, `"b"`},
		{"delete an older version", remove("a", "1"), apierrors.IsConflict, ""},
		{"delete no version", remove("a", "x"), apierrors.IsBadRequest, ""},
		{"get nothing", func(m *lw.Memory[*rig.Widget]) error { return second(m.Get(t.Context(), rig.Key("b"))) },
			apierrors.IsNotFound, ""},
		{"get, canceled", func(m *lw.Memory[*rig.Widget]) error { return second(m.Get(over, rig.Key("a"))) }, isCanceled, ""},
		{"create, canceled", func(m *lw.Memory[*rig.Widget]) error { return second(m.Create(over, rig.NewWidget("c", 1))) },
			isCanceled, ""},
		{"update, canceled", func(m *lw.Memory[*rig.Widget]) error { return second(m.Update(over, rig.NewWidget("a", 9))) },
			isCanceled, ""},
		{"delete, canceled", func(m *lw.Memory[*rig.Widget]) error { return second(m.Delete(over, rig.Key("a"), "")) },
			isCanceled, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 0))
			rig.Update(t, m, "a", 1)
			err := tt.do(m)
			if !tt.is(err) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
			if got := m.ResourceVersion(); got != "3" || len(slices.Collect(m.All())) != 1 {
				t.Errorf("a refused write made version %s", got)
			}
		})
	}
}

// TestMemoryNoOp: an update that changes nothing makes no version, whatever resource version it
// leaves out.
func TestMemoryNoOp(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1))
	before, _ := m.Get(t.Context(), lw.Key{Namespace: "default", Name: "a"})
	for _, obj := range []*rig.Widget{before, rig.NewWidget("a", 1)} {
		rig.Same(t, "Update", before, rig.Must[*rig.Widget](t)(m.Update(t.Context(), obj)))
	}
}

// TestMemoryCopies: what was given and what was handed out may be changed, also in depth, and
// nobody else sees it.
func TestMemoryCopies(t *testing.T) {
	given := partial("a", map[string]string{"l": "1"})
	m := lw.NewMemory(given)
	given.Labels["l"] = "mine"
	opts := metav1.ListOptions{LabelSelector: "l=1"}
	for range 2 {
		n := 0
		_, err := m.List(t.Context(), opts, func(obj *metav1.PartialObjectMetadata, err error) error {
			n++
			obj.Labels["l"] = "mine"
			return err
		})
		if n != 1 || err != nil {
			t.Fatalf("listed %d, %v, want 1", n, err)
		}
		got, _ := m.Get(t.Context(), lw.KeyOf(given))
		rig.Same(t, "labels", map[string]string{"l": "1"}, got.Labels)
		got.Labels["l"] = "mine"
	}
}

func TestMemorySelectors(t *testing.T) {
	m := lw.NewMemory(partial("a", map[string]string{"l": "1"}), partial("b", nil))
	for _, tt := range []struct {
		opts metav1.ListOptions
		want []string
		is   func(error) bool
	}{
		{opts: metav1.ListOptions{LabelSelector: "l=1"}, want: []string{"a"}},
		{opts: metav1.ListOptions{LabelSelector: "!l"}, want: []string{"b"}},
		{opts: metav1.ListOptions{FieldSelector: "metadata.name=b"}, want: []string{"b"}},
		{opts: metav1.ListOptions{FieldSelector: "metadata.namespace!=ns"}},
		{opts: metav1.ListOptions{FieldSelector: "spec.nodeName=n"}, is: apierrors.IsBadRequest},
	} {
		t.Run(tt.opts.LabelSelector+tt.opts.FieldSelector, func(t *testing.T) {
			var got []string
			_, err := m.List(t.Context(), tt.opts, func(obj *metav1.PartialObjectMetadata, err error) error {
				got = append(got, obj.Name)
				return err
			})
			if diff := cmp.Diff(tt.want, got); diff != "" || tt.is == nil && err != nil || tt.is != nil && !tt.is(err) {
				t.Errorf("List (-want +got):\n%s%v", diff, err)
			}
		})
	}
	_, err := lw.NewMemory[*rig.Widget]().List(t.Context(), metav1.ListOptions{LabelSelector: "l"}, nil)
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `label selector "l": Widget has no GetLabels`) {
		t.Errorf("a label selector on a type without labels: %v", err)
	}
}

func TestMemoryYieldError(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1))
	stop := errors.New("stop")
	_, err := m.List(t.Context(), metav1.ListOptions{}, func(*rig.Widget, error) error { return stop })
	if err != stop {
		t.Errorf("List = %v", err)
	}
	if err := m.Watch(t.Context(), metav1.ListOptions{},
		func(lw.WatchEvent[*rig.Widget]) error { return stop }); err != stop {
		t.Errorf("Watch = %v", err)
	}
}

// startWatch runs a watch in a goroutine of the bubble and returns what it told so far, and its
// end.
func startWatch(ctx context.Context, m *lw.Memory[*rig.Widget], opts metav1.ListOptions) (told func() []string,
	end <-chan error) {
	var mu sync.Mutex
	var events []string
	done := make(chan error, 1)
	go func() {
		done <- m.Watch(ctx, opts, func(ev lw.WatchEvent[*rig.Widget]) error {
			s := fmt.Sprintf("%s@%s", ev.Type, ev.ResourceVersion)
			if ev.Object != nil {
				s += fmt.Sprintf(" %s=%d@%s", ev.Object.Name, ev.Object.Size, ev.Object.ResourceVersion)
			}
			if ev.InitialEventsEnd {
				s += " end"
			}
			mu.Lock()
			defer mu.Unlock()
			events = append(events, s)
			return nil
		})
	}()
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(events)
	}, done
}

func TestMemoryWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := lw.NewMemory(rig.NewWidget("b", 1), rig.NewWidget("a", 2))
		ctx, cancel := context.WithCancel(t.Context())
		told, end := startWatch(ctx, m, metav1.ListOptions{
			SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks: true,
		})
		synctest.Wait()
		rig.Update(t, m, "a", 3)
		synctest.Wait()
		m.Bookmark()
		synctest.Wait()
		rig.Remove(t, m, "a")
		time.Sleep(time.Minute)
		want := []string{
			"ADDED@3 a=2@3", "ADDED@2 b=1@2", "BOOKMARK@3 end", "MODIFIED@4 a=3@4", "BOOKMARK@4", "DELETED@5 a=3@5",
			"BOOKMARK@5",
		}
		rig.Same(t, "events", want, told())
		cancel()
		if err := <-end; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

func TestMemoryEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(*lw.Memory[*rig.Widget]) error
		want error
	}{
		{"disconnect", func(m *lw.Memory[*rig.Widget]) error { m.Disconnect(); return nil }, nil},
		{"fail", func(m *lw.Memory[*rig.Widget]) error { m.Fail(errors.New("down")); return nil }, nil},
		{"rewind", func(m *lw.Memory[*rig.Widget]) error { return m.Rewind("2") }, nil},
		{"time", func(*lw.Memory[*rig.Widget]) error { time.Sleep(time.Hour); return nil }, nil},
		{"compact what was told", func(m *lw.Memory[*rig.Widget]) error { m.Compact(); return nil }, context.Canceled},
		{"end a failure", func(m *lw.Memory[*rig.Widget]) error { m.Fail(nil); return nil }, context.Canceled},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, end := startWatch(ctx, m, metav1.ListOptions{ResourceVersion: "3", TimeoutSeconds: new(int64(600))})
			synctest.Wait()
			rig.OK(t, tt.do(m))
			synctest.Wait()
			cancel()
			if err := <-end; !errors.Is(err, tt.want) {
				t.Errorf("the watch ended with %v, want %v", err, tt.want)
			}
		})
	}
}

func TestMemoryFail(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1))
	down := apierrors.NewServiceUnavailable("down")
	m.Fail(down)
	list := func() error {
		return second(m.List(t.Context(), metav1.ListOptions{}, func(*rig.Widget, error) error { return nil }))
	}
	_, hint := m.Hints().StillHas(t.Context(), lw.Meta{Namespace: "default", Name: "a", ResourceVersion: "2"}, "2")
	for what, err := range map[string]error{"List": list(), "Watch": m.Watch(t.Context(), metav1.ListOptions{}, nil),
		"StillHas": hint} {
		if err != down {
			t.Errorf("%s = %v, want %v", what, err, down)
		}
	}
	rig.Update(t, m, "a", 2) // writes do not fail
	m.Fail(nil)
	rig.OK(t, list())
}

func TestMemoryExpired(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
	list, err := m.List(t.Context(), metav1.ListOptions{Limit: 1}, func(*rig.Widget, error) error { return nil })
	if err != nil || list.Continue == "" || *list.RemainingItemCount != 1 {
		t.Fatalf("page = %+v, %v", list, err)
	}
	rig.Update(t, m, "a", 2)
	m.Compact()
	for what, err := range map[string]error{
		"List":   second(m.List(t.Context(), metav1.ListOptions{Continue: list.Continue}, nil)),
		"Watch":  m.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}, nil),
		"Rewind": m.Rewind(list.ResourceVersion),
	} {
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("%s = %v, want Expired", what, err)
		}
	}
	if err := m.Rewind("x"); err == nil {
		t.Error("Rewind to no version")
	}
	if _, err := m.List(t.Context(), metav1.ListOptions{ResourceVersion: "99"},
		nil); apierrors.ReasonForError(err) != metav1.StatusReasonTimeout {
		t.Errorf("List of a version to come = %v, want %d", err, http.StatusGatewayTimeout)
	}
}

// A UID of the writer's own is kept, by an update that leaves it out as well.
func TestMemoryKeepsUIDs(t *testing.T) {
	mine := rig.NewWidget("a", 1)
	mine.UID = "mine"
	m := lw.NewMemory(mine)
	updated, err := m.Update(t.Context(), rig.NewWidget("a", 2))
	if got, gone := m.Get(t.Context(), rig.Key("a")); err != nil || gone != nil || updated.UID != "mine" ||
		got.UID != "mine" || got.Size != 2 {
		t.Errorf("updated to %+v, got %+v, error %v", updated, got, err)
	}
}

// All is of the state of its call, however late and however far the loop runs.
func TestMemoryAllIsOneState(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
	all := m.All()
	rig.Remove(t, m, "b")
	m.Compact()
	for range 2 {
		var got []string
		for w := range all {
			got = append(got, w.Name)
		}
		rig.Same(t, "all", []string{"a", "b"}, got)
	}
	for w := range all {
		if w.Name != "a" {
			t.Errorf("%s after the loop has ended", w.Name)
		}
		break
	}
}

// A list ends soon after its context, and a watch refuses what a list refuses.
func TestMemoryRequestsEnd(t *testing.T) {
	m := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := m.List(ctx, metav1.ListOptions{}, func(*rig.Widget, error) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("List = %v after %d objects", err, n)
	}
	err = m.Watch(t.Context(), metav1.ListOptions{LabelSelector: "l"}, nil)
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "Widget has no GetLabels") {
		t.Errorf("Watch with a label selector on a type without labels: %v", err)
	}
}

// What a Memory is as a Writable: its writes, and the versions of deletions.
func TestMemoryWritable(t *testing.T) {
	m := lw.NewMemory[*rig.Widget]()
	w, ctx := lw.Writable[*rig.Widget](m), t.Context()
	stored, err := w.Create(ctx, rig.NewWidget("a", 1))
	if err != nil || stored.UID == "" || stored.ResourceVersion != "2" {
		t.Fatalf("Create: %v, %v", stored, err)
	}
	stored.Size = 2
	if stored, err = w.Update(ctx, stored); err != nil || stored.ResourceVersion != "3" || stored.Size != 2 {
		t.Errorf("Update: %v, %v", stored, err)
	}
	if got, err := w.Get(ctx, rig.Key("a")); err != nil || *got != *stored {
		t.Errorf("Get: %v, %v", got, err)
	}
	if version, err := w.Delete(ctx, rig.Key("a"), "3"); err != nil || version != "4" || m.ResourceVersion() != "4" {
		t.Errorf("Delete: %q, %v", version, err)
	}
	if version, err := m.Transact(t.Context(), []*rig.Widget{rig.NewWidget("x", 1)},
		rig.Key("nobody")); !apierrors.IsNotFound(err) || version != "" || m.ResourceVersion() != "4" {
		t.Errorf("a transaction that fails: %q, %v, at %s", version, err, m.ResourceVersion())
	}
	m.Fail(errors.New("down"))
	if _, err := w.Get(ctx, rig.Key("a")); !apierrors.IsNotFound(err) {
		t.Errorf("Get of one whose lists fail: %v", err)
	}
}

func second[A any](_ A, err error) error { return err }

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// The versions of a Memory are later than those of a process before, and UIDs do not come again.
// Who goes on with a version of that process is told to list.
func TestMemoryOfALaterProcess(t *testing.T) {
	history.FromOne = false
	defer func() { history.FromOne = true }()
	synctest.Test(t, func(t *testing.T) {
		old := lw.NewMemory(rig.NewWidget("a", 0))
		for i := range 100 {
			rig.Update(t, old, "a", i+1)
		}
		was, _ := old.Get(t.Context(), rig.Key("a"))
		time.Sleep(time.Second)
		m := lw.NewMemory[*rig.Widget]()
		err := m.Watch(t.Context(), metav1.ListOptions{ResourceVersion: was.ResourceVersion},
			func(lw.WatchEvent[*rig.Widget]) error { return nil })
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch that goes on: %v", err)
		}
		now := rig.Create(t, m, "a", 1)
		if len(now.ResourceVersion) != len(was.ResourceVersion) || now.ResourceVersion <= was.ResourceVersion ||
			now.UID == was.UID || len(now.UID) != 36 {
			t.Errorf("%+v after %+v", now, was)
		}
		if other := rig.Create(t, m, "b", 1); other.UID == now.UID {
			t.Error("two objects have one UID")
		}
		if err := m.Rewind("1"); !apierrors.IsResourceExpired(err) {
			t.Errorf("a rewind to before the beginning: %v", err)
		}
		// A test may begin where it likes.
		var all [2]*rig.Widget
		for i := range all {
			m := lw.NewMemory[*rig.Widget]()
			rig.OK(t, m.Rewind("1"))
			all[i] = rig.Create(t, m, "a", 1)
		}
		if diff := cmp.Diff(all[0], all[1]); diff != "" || all[0].ResourceVersion != "2" {
			t.Errorf("%+v: %s", all[0], diff)
		}
	})
}
