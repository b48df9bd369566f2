package proof

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// Histories that the proofs have found, each shrunk to what matters.

// follow runs f with a server behind HTTP and an informer of it that has synced. reported joins all
// errors that the informer has reported; call it while nothing runs.
func follow(t *testing.T, f func(t *testing.T, s *web, inf *lw.Informer[*Part], reported func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newWeb(plain())
		var errs []error
		inf := lw.NewInformer(lw.Source[*Part](s.src), &lw.Options{OnError: func(err error) { errs = append(errs, err) }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			s.close()
		})
		if err := inf.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(t, s, inf, func() error { return errors.Join(errs...) })
	})
}

// An object that cannot be decoded is gone when it is deleted, although the event that says so
// carries it once more. It used to stay set aside, in the state before it broke, and held back the
// version.
func TestDeletionOfWhatCannotBeDecoded(t *testing.T) {
	follow(t, func(t *testing.T, s *web, inf *lw.Informer[*Part], _ func() error) {
		s.put(newPart("a", "x", 1))
		s.put(newPart("a", "x", sizeBroken))
		synctest.Wait()
		if st := inf.Status(); st.SetAside[partKey("a")] == nil || st.Objects != 1 {
			t.Fatalf("before the deletion: %+v", st)
		}
		version := s.remove(partKey("a"))
		synctest.Wait()
		if st := inf.Status(); len(st.SetAside) != 0 || st.Objects != 0 ||
			st.ResourceVersion != listopts.FormatVersion(version) {
			t.Errorf("after the deletion at %d: %+v", version, st)
		}
	})
}

// An event of before is refused also where its object cannot be decoded: it used to move the
// position back.
func TestOldEventThatCannotBeDecoded(t *testing.T) {
	follow(t, func(t *testing.T, s *web, inf *lw.Informer[*Part], reported func() error) {
		s.put(newPart("a", "x", sizeBroken))
		s.put(newPart("a", "x", 1))
		synctest.Wait()
		s.server.Interrupt(nil, apiserver.Replay(1))
		synctest.Wait()
		if err := reported(); err == nil || !strings.Contains(err.Error(), "came after") {
			t.Errorf("no error says that an event came after a newer one: %v", err)
		}
		if st := inf.Status(); len(st.SetAside) != 0 || st.Objects != 1 {
			t.Errorf("%+v", st)
		}
		for _, r := range s.server.Requests(apiserver.Watch) {
			t.Errorf("a watch from %s, want a list", r.Options.ResourceVersion)
		}
	})
}

// A breaking source answers a watch that its reader has ended with a broken connection.
type breaking struct{ *direct }

func (b breaking) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Part]) error) error {
	if err := b.direct.Watch(ctx, opts, yield); ctx.Err() == nil {
		return err
	}
	return syscall.ECONNRESET
}

// A slow source returns from a watch when its reader has ended it.
type slow struct{ *recorded }

func (s slow) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Part]) error) error {
	err := s.recorded.Watch(ctx, opts, yield)
	<-ctx.Done()
	return err
}

// A connection that breaks in the moment in which a wait ends the watch is no failure to report,
// whichever comes first. The oracle took it for one.
func TestBreaksWhileItIsEnded(t *testing.T) {
	for name, do := range map[string]func(d *direct, src *recorded) lw.Source[*Part]{
		"the end comes first": func(d *direct, src *recorded) lw.Source[*Part] {
			src.src = breaking{d}
			return src
		},
		"the break comes first": func(d *direct, src *recorded) lw.Source[*Part] {
			time.AfterFunc(time.Minute, func() { d.poke(directPoke{err: syscall.ECONNRESET}) })
			return slow{src}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, log := newDirect(), oracle.New()
			inf := lw.NewInformer(do(d, &recorded{src: d, log: log, copy: 1, late: new(lateness)}), &lw.Options{
				List: lw.ListStream, OnError: func(err error) { log.Reports(oracle.Report{Copy: 1, Err: err}) },
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- inf.Run(ctx) }()
			time.Sleep(2 * time.Minute)
			waiting, end := context.WithTimeout(ctx, time.Minute)
			defer end()
			if err := inf.WaitForResourceVersion(waiting, "999"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			stopped := log.Tick()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			log.Stops(oracle.Stop{Copy: 1, Call: stopped})
			if r := log.Check(nil); len(r.Violations) > 0 || r.Premises["R12"] == 0 {
				t.Errorf("%s: %v, premises %v", name, r.Violations, r.Premises)
			}
		})
	}
}
