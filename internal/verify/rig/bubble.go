package rig

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw"
)

// Subtest runs a subtest in a bubble.
func Subtest(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Start runs r, an informer or a reflector, in the bubble until the test ends.
func Start(t *testing.T, r interface{ Run(context.Context) error }) {
	t.Cleanup(begin(t, context.Background(), r))
}

// Begin runs r in the bubble until the function that it returns is called, which returns when Run
// has.
func Begin(t *testing.T, r interface{ Run(context.Context) error }) (stop func()) {
	t.Helper()
	stop = begin(t, t.Context(), r)
	synctest.Wait()
	return stop
}

func begin(t *testing.T, ctx context.Context, r interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// Run starts an informer of src and waits until it has synced.
func Run(t *testing.T, src lw.Source[*Widget], opts *lw.Options) *lw.Informer[*Widget] {
	t.Helper()
	inf := lw.NewInformer(src, opts)
	Start(t, inf)
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return inf
}

// Paged runs an informer of src that lists in pages for so long.
func Paged(t *testing.T, src *Script, d time.Duration) (*lw.Informer[*Widget], *Errors) {
	t.Helper()
	errs := &Errors{}
	inf := lw.NewInformer[*Widget](src, &lw.Options{List: lw.ListPages, OnError: errs.Add})
	Start(t, inf)
	Sleep(d)
	synctest.Wait()
	return inf, errs
}

// MustPanic checks that f panics, with a text that has want.
func MustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

// Heap is the size of the heap in bytes, without garbage.
func Heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// Quiet are options of an informer that logs nothing.
func Quiet() *lw.Options { return &lw.Options{OnError: func(error) {}} }

// ReflectInto runs a reflector of src into sink until the test ends.
func ReflectInto(t *testing.T, src lw.Source[*Widget], sink lw.Sink[*Widget], opts *lw.Options) *lw.Reflector[*Widget] {
	r := lw.NewReflector(src, sink, opts)
	Start(t, r)
	return r
}

// EndsAtOnce fails if Run does not end with want, which op failed of.
func EndsAtOnce[T lw.Object](t *testing.T, src lw.Source[T], op, want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var told Errors
		inf := lw.NewInformer(src, &lw.Options{Name: "x", OnError: told.Add})
		reg := inf.AddHandler(lw.Handler[T]{Add: func(T) {}})
		ended := make(chan error, 1)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { ended <- inf.Run(ctx) }()
		wait := inf.WaitForSync(t.Context())
		err := <-ended
		if took := time.Since(began); took != 0 {
			t.Errorf("Run ended after %v with %v", took, err)
		}
		var e *lw.Error
		if !errors.As(err, &e) || e.Op != op || e.Failures != 1 || e.Informer != "x" || !errors.Is(err, lw.ErrPermanent) ||
			!strings.Contains(err.Error(), want) ||
			strings.Contains(fmt.Sprint(err, wait), "secret@") || strings.Contains(fmt.Sprint(err, wait), "=secret") {
			t.Errorf("Run: %v\nwant %q", err, want)
		}
		if !strings.Contains(err.Error(), "no retry can help") {
			t.Errorf("%v looks as if it was retried", err)
		}
		if errs := told.All(); slices.Index(errs, err) != len(errs)-1 || op == "stream" && len(errs) > 1 {
			t.Errorf("OnError was told %v, want what Run returned at the end: %v", errs, err)
		}
		if s := inf.Status(); s.Phase != "stopped" || s.Err != err || s.Failures != 1 || s.Synced {
			t.Errorf("Status %+v", s)
		}
		for _, err := range []error{wait, inf.WaitForSync(t.Context()), reg.WaitForSync(t.Context())} {
			if !errors.Is(err, lw.ErrPermanent) || !errors.Is(err, lw.ErrStopped) || !errors.As(err, &e) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("WaitForSync: %v", err)
			}
		}
	})
}
