package lwtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Writable checks the writes of a [lw.Writable] by random sequences, each of which it also makes of
// a
// [lw.Memory]: the answers must be the same, errors as well, apart from versions and UIDs. It calls
// open for each sequence, which returns an empty collection that nobody else writes, and a function
// that closes it or nil.
//
// object returns a new object of key, and change changes an object in place, both to a content that
// depends on n alone. A copy of the struct must be independent as far as change is concerned.
//
// Writable also checks that versions rise with each write, that a write which changes nothing makes
// no version, that nothing is written if the context is done, and that an informer which has waited
// for the version of a write, also of a deletion, shows it.
func Writable[T lw.Object](t testing.TB, open func() (w lw.Writable[T], closed func()), object func(key lw.Key, n int) T, change func(obj T, n int)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		w, closed := open()
		if closed != nil {
			defer closed()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		inf := lw.NewInformer(lw.Source[T](w), &lw.Options{Name: "lwtest", OnError: func(error) {}})
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			_ = inf.Run(ctx)
		}()
		defer func() {
			cancel()
			<-ran
		}()
		s := &writes[T]{rt: rt, ctx: ctx, inf: inf, object: object, change: change, sides: [2]lw.Writable[T]{w, lw.NewMemory[T]()}}
		rt.Repeat(map[string]func(*rapid.T){
			"create": s.create, "create too": s.create, "update": s.update, "update too": s.update,
			"delete": s.delete, "get": s.get, "list": s.list, "too late": s.late,
		})
	})
}

// writes is one sequence, made of the Writable under test, which is first, and of a Memory.
type writes[T lw.Object] struct {
	rt     *rapid.T
	ctx    context.Context
	inf    *lw.Informer[T]
	object func(key lw.Key, n int) T
	change func(obj T, n int)
	sides  [2]lw.Writable[T]
	stored [][2]T // what writes have returned, of both sides
	last   string // the newest version
	steps  []string
}

var writtenKeys = []lw.Key{{Namespace: "a", Name: "one"}, {Namespace: "a", Name: "two"}, {Namespace: "b", Name: "one"}}

func (s *writes[T]) key(rt *rapid.T) lw.Key { return rapid.SampledFrom(writtenKeys).Draw(rt, "key") }

func (s *writes[T]) fail(format string, args ...any) {
	s.rt.Helper()
	s.rt.Fatalf("lwtest: %s\nThe writes:\n%s", fmt.Sprintf(format, args...), strings.Join(s.steps, "\n"))
}

// kindOf names what sort of error err is.
func kindOf(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, context.Canceled):
		return "Canceled"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return string(apierrors.ReasonForError(err))
	}
	return err.Error()
}

// same compares the errors of the two sides, and reports whether there is none.
func (s *writes[T]) same(what string, errs [2]error) bool {
	s.rt.Helper()
	if got, want := kindOf(errs[0]), kindOf(errs[1]); got != want {
		s.fail("%s: the error is %v (%s), want %v (%s)", what, errs[0], got, errs[1], want)
	}
	s.steps = append(s.steps, fmt.Sprintf("%s: %s", what, kindOf(errs[1])))
	return errs[0] == nil
}

// copied returns a copy of the struct of obj.
func copied[T lw.Object](obj T) T {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return obj
	}
	to := reflect.New(v.Type().Elem())
	to.Elem().Set(v.Elem())
	return to.Interface().(T)
}

// wrote checks what a write has returned, and waits until the informer shows it.
func (s *writes[T]) wrote(what string, before string, objs [2]T) {
	s.rt.Helper()
	obj, like := objs[0], objs[1]
	if !equalApartFromVersions(obj, like) {
		s.fail("%s: it returned %s, want %s", what, show(obj), show(like))
	}
	version := obj.GetResourceVersion()
	if err := valid(version); err != nil || obj.GetUID() == "" {
		s.fail("%s: it returned UID %q, and %v", what, obj.GetUID(), err)
	}
	if changed := like.GetResourceVersion() != before; changed {
		s.rises(what, version)
	}
	s.stored = append(s.stored, objs)
	s.shows(what, lw.KeyOf(obj), version, obj)
}

// rises checks that version is newer than that of the write before.
func (s *writes[T]) rises(what, version string) {
	s.rt.Helper()
	if err := valid(version); err != nil {
		s.fail("%s: %v", what, err)
	}
	if s.last != "" && compare(version, s.last) <= 0 {
		s.fail("%s: it returned version %s after %s", what, version, s.last)
	}
	s.last = version
}

// shows waits for version, after which the informer must show obj; zero: nothing.
func (s *writes[T]) shows(what string, key lw.Key, version string, obj T) {
	s.rt.Helper()
	if err := s.inf.WaitForResourceVersion(s.ctx, version); err != nil {
		s.fail("%s: %v", what, err)
	}
	var none T
	got, ok := s.inf.Store().Get(key)
	switch {
	case ok != (obj != none):
		s.fail("%s: after a wait for %s the informer shows it: %v", what, version, ok)
	case ok && (got.GetResourceVersion() != obj.GetResourceVersion() || got.GetUID() != obj.GetUID() || !equalApartFromVersions(got, obj)):
		s.fail("%s: after a wait for %s the informer shows %s, want %s", what, version, show(got), show(obj))
	}
}

func (s *writes[T]) create(rt *rapid.T) {
	key, n := s.key(rt), rapid.IntRange(0, 2).Draw(rt, "content")
	what := fmt.Sprintf("create %v with content %d", key, n)
	var objs [2]T
	var errs [2]error
	for i, w := range s.sides {
		objs[i], errs[i] = w.Create(s.ctx, s.object(key, n))
	}
	if s.same(what, errs) {
		s.wrote(what, "", objs)
	}
}

// update writes an object without a version, or one that was stored at some time, as it was or
// changed.
func (s *writes[T]) update(rt *rapid.T) {
	key, n := s.key(rt), rapid.IntRange(0, 2).Draw(rt, "content")
	objs := [2]T{s.object(key, n), s.object(key, n)}
	what := fmt.Sprintf("update %v to content %d", key, n)
	if len(s.stored) > 0 && rapid.Bool().Draw(rt, "of a version") {
		of := s.stored[len(s.stored)-1-rapid.IntRange(0, min(len(s.stored), 6)-1).Draw(rt, "writes back")]
		objs = [2]T{copied(of[0]), copied(of[1])}
		key = lw.KeyOf(objs[0])
		what = fmt.Sprintf("update %v of version %s", key, objs[0].GetResourceVersion())
		if rapid.Bool().Draw(rt, "changed") {
			what += fmt.Sprintf(" to content %d", n)
			s.change(objs[0], n)
			s.change(objs[1], n)
		}
	}
	before := ""
	if was, err := s.sides[1].Get(s.ctx, key); err == nil {
		before = was.GetResourceVersion()
	}
	var errs [2]error
	for i, w := range s.sides {
		objs[i], errs[i] = w.Update(s.ctx, objs[i])
	}
	if s.same(what, errs) {
		s.wrote(what, before, objs)
	}
}

func (s *writes[T]) delete(rt *rapid.T) {
	key := s.key(rt)
	var at [2]string
	if len(s.stored) > 0 && rapid.Bool().Draw(rt, "of a version") {
		of := s.stored[len(s.stored)-1-rapid.IntRange(0, min(len(s.stored), 4)-1).Draw(rt, "writes back")]
		key, at = lw.KeyOf(of[0]), [2]string{of[0].GetResourceVersion(), of[1].GetResourceVersion()}
	}
	what := fmt.Sprintf("delete %v at %q", key, at[0])
	var versions [2]string
	var errs [2]error
	for i, w := range s.sides {
		versions[i], errs[i] = w.Delete(s.ctx, key, at[i])
	}
	if s.same(what, errs) {
		s.rises(what, versions[0])
		var none T
		s.shows(what, key, versions[0], none)
	}
}

func (s *writes[T]) get(rt *rapid.T) {
	key := s.key(rt)
	var objs [2]T
	var errs [2]error
	for i, w := range s.sides {
		objs[i], errs[i] = w.Get(s.ctx, key)
	}
	if s.same(fmt.Sprintf("get %v", key), errs) && !equalApartFromVersions(objs[0], objs[1]) {
		s.fail("get %v: %s, want %s", key, show(objs[0]), show(objs[1]))
	}
}

// list compares the two collections.
func (s *writes[T]) list(*rapid.T) {
	var lists [2]map[lw.Key]T
	var errs [2]error
	for i, w := range s.sides {
		lists[i] = map[lw.Key]T{}
		_, errs[i] = w.List(s.ctx, metav1.ListOptions{}, func(obj T, err error) error {
			if err == nil {
				lists[i][lw.KeyOf(obj)] = obj
			}
			return err
		})
	}
	s.same("list", errs)
	for _, key := range writtenKeys {
		obj, is := lists[0][key]
		like, should := lists[1][key]
		if is != should || is && !equalApartFromVersions(obj, like) {
			s.fail("a list has %v: %v, want %v: %s, want %s", key, is, should, show(obj), show(like))
		}
	}
}

// late makes a write whose context is done.
func (s *writes[T]) late(rt *rapid.T) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	key, n := s.key(rt), rapid.IntRange(0, 2).Draw(rt, "content")
	op := rapid.SampledFrom([]string{"create", "update", "delete", "get"}).Draw(rt, "op")
	var errs [2]error
	for i, w := range s.sides {
		switch op {
		case "create":
			_, errs[i] = w.Create(ctx, s.object(key, n))
		case "update":
			_, errs[i] = w.Update(ctx, s.object(key, n))
		case "delete":
			_, errs[i] = w.Delete(ctx, key, "")
		default:
			_, errs[i] = w.Get(ctx, key)
		}
	}
	s.same(op+" of "+key.String()+" when the context is done", errs)
	s.list(rt)
}
