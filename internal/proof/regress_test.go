package proof

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/listopts"
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
		if st := inf.Status(); len(st.SetAside) != 0 || st.Objects != 0 || st.ResourceVersion != listopts.FormatVersion(version) {
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
