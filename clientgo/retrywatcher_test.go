package clientgo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

type retrying interface {
	watch.Interface
	Done() <-chan struct{}
}

// retryWatchers are the ways to watch from a version. client-go's is the truth.
var retryWatchers = map[string]func(context.Context, string, cache.WatcherWithContext) (retrying, error){
	"client-go": func(ctx context.Context, version string, w cache.WatcherWithContext) (retrying, error) {
		return watchtools.NewRetryWatcherWithContext(ctx, version, w)
	},
	"lw": func(ctx context.Context, version string, w cache.WatcherWithContext) (retrying, error) {
		return clientgo.NewRetryWatcher(ctx, version, w)
	},
}

// drained returns what has come of w, until nothing more comes.
func drained(w watch.Interface) (got []string) {
	for {
		synctest.Wait()
		select {
		case ev, ok := <-w.ResultChan():
			if !ok {
				return append(got, "end")
			}
			switch obj := ev.Object.(type) {
			case *corev1.Pod:
				got = append(got, fmt.Sprintf("%s %s@%s", ev.Type, describe(obj), obj.ResourceVersion))
			case *metav1.Status:
				got = append(got, fmt.Sprintf("%s %d", ev.Type, obj.Code))
			}
		default:
			return got
		}
	}
}

// Every event since the version comes once, in order, whatever happens to the connections.
func TestRetryWatcherStories(t *testing.T) {
	tell := func(seed uint64, kind string) (told []string) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			server := newPodMemory(labelled("a"), labelled("b"))
			server.update(t, labelled("a", "v=1"))
			w := rig.Must[retrying](t)(retryWatchers[kind](t.Context(), "2", server))
			for i := range 20 {
				if rnd.IntN(3) == 0 {
					server.Disconnect()
				}
				server.update(t, labelled("b", fmt.Sprintf("v=%d", i)))
				if rnd.IntN(2) == 0 {
					time.Sleep(10 * time.Minute)
					told = append(told, drained(w)...)
				}
			}
			for range 3 { // a connection that has ended meanwhile is made again when somebody reads, after a pause
				time.Sleep(10 * time.Minute)
				told = append(told, drained(w)...)
			}
			w.Stop()
			w.Stop()
			<-w.Done()
			told = append(told, drained(w)...)
		})
		return told
	}
	for seed := range uint64(10) {
		want := tell(seed, "client-go")
		if len(want) < 20 {
			t.Fatalf("client-go tells %q", want)
		}
		rig.Same(t, fmt.Sprintf("seed %d: client-go and lw", seed), want, tell(seed, "lw"))
	}
}

// forbidding is a server that does not permit to watch from the second watch on.
type forbidding struct {
	*podMemory
	err     error
	watches atomic.Int64
}

func (s *forbidding) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if s.watches.Add(1) > 1 {
		return nil, s.err
	}
	return s.podMemory.WatchWithContext(ctx, opts)
}

// Where it cannot go on, the last event says why. No list is made in any case.
func TestRetryWatcherEnds(t *testing.T) {
	for kind, new := range retryWatchers {
		rig.Subtest(t, kind, func(t *testing.T) {
			server := newPodMemory(labelled("a"))
			for i := range 3 {
				server.update(t, labelled("a", fmt.Sprintf("v=%d", i)))
			}
			server.Compact()
			server.update(t, labelled("a", "v=4"))
			w := rig.Must[retrying](t)(new(t.Context(), "2", server))
			time.Sleep(time.Minute)
			rig.Same(t, "of a version that is forgotten", []string{"ERROR 410", "end"}, drained(w))
			<-w.Done()

			for want, refusal := range map[string]error{
				"ERROR 403": apierrors.NewForbidden(corev1.Resource("pods"), "", nil),
				"ERROR 401": apierrors.NewUnauthorized("who?"),
			} {
				forbids := &forbidding{podMemory: newPodMemory(labelled("a")), err: refusal}
				w := rig.Must[retrying](t)(new(t.Context(), "2", forbids))
				synctest.Wait()
				forbids.Disconnect()
				time.Sleep(time.Minute)
				rig.Same(t, "of a server that refuses", []string{want, "end"}, drained(w))
				rig.Same(t, "watches at a server that permits the first only", 2, forbids.watches.Load())
			}
			for _, version := range []string{"", "0"} {
				_, err := new(t.Context(), version, server)
				fails(t, err, "")
			}
			ctx, cancel := context.WithCancel(t.Context())
			w = rig.Must[retrying](t)(new(ctx, server.ResourceVersion(), server))
			cancel()
			<-w.Done()
		})
	}
}

// bookmarking is a server whose first watch sends a bookmark, and then ends. The others stay open.
type bookmarking struct{ from []string }

func (s *bookmarking) WatchWithContext(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	s.from = append(s.from, opts.ResourceVersion)
	w, p := watch.NewFakeWithChanSize(2, false), labelled("a")
	if len(s.from) == 1 {
		p.ResourceVersion = "7"
		w.Action(watch.Bookmark, p)
		w.Stop()
	} else {
		p.ResourceVersion = "8"
		w.Add(p)
	}
	return w, nil
}

// A bookmark that is ahead of the last event moves the version from which the watch goes on, and is
// not passed on.
func TestRetryWatcherBookmark(t *testing.T) {
	for kind, new := range retryWatchers {
		rig.Subtest(t, kind, func(t *testing.T) {
			server := &bookmarking{}
			w := rig.Must[retrying](t)(new(t.Context(), "2", server))
			time.Sleep(time.Minute)
			rig.Same(t, "events", []string{"ADDED a@8"}, drained(w))
			w.Stop()
			<-w.Done()
			rig.Same(t, "watches from", []string{"2", "7"}, server.from)
		})
	}
}

// A watch from the version of a list that was made before, as gitops-engine does.
func ExampleNewRetryWatcher() {
	server := newPodMemory(pod("default", "web"))
	since := server.ResourceVersion()
	events, err := clientgo.NewRetryWatcher(context.Background(), since, server)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer events.Stop()
	if _, err := server.Create(context.Background(), pod("default", "dns")); err != nil {
		fmt.Println(err)
		return
	}
	ev := <-events.ResultChan()
	fmt.Println(ev.Type, ev.Object.(*corev1.Pod).Name)
	// Output: ADDED dns
}

// The last event has the status of the answer that ended the watch, and no other text.
func TestRetryWatcherTellsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &cache.ListWatch{WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return nil, apierrors.NewResourceExpired("the server has forgotten 5")
		}}
		w := rig.Must[*clientgo.RetryWatcher](t)(clientgo.NewRetryWatcher(t.Context(), "5", watcher))
		ev := <-w.ResultChan()
		if status, ok := ev.Object.(*metav1.Status); !ok || ev.Type != watch.Error ||
			status.Message != "the server has forgotten 5" || status.Code != 410 {
			t.Errorf("%s %v", ev.Type, ev.Object)
		}
		<-w.Done()
	})
}

// A watcher that is stopped while nobody reads its events ends, as does one whose context is done.
func TestRetryWatcherStopsUnread(t *testing.T) {
	for name, stop := range map[string]func(watch.Interface, context.CancelFunc){
		"stopped":  func(w watch.Interface, _ context.CancelFunc) { w.Stop() },
		"canceled": func(_ watch.Interface, cancel context.CancelFunc) { cancel() },
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			events := watch.NewRaceFreeFake()
			for i := range 3 {
				p := pod("default", "a")
				p.ResourceVersion = fmt.Sprint(10 + i)
				events.Modify(p)
			}
			w := rig.Must[*clientgo.RetryWatcher](t)(clientgo.NewRetryWatcher(ctx, "9", &cache.ListWatch{
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
			}))
			synctest.Wait()
			stop(w, cancel)
			synctest.Wait()
			select {
			case <-w.Done():
			default:
				t.Error("it has not ended")
				drained(w)
			}
		})
	}
}

func TestRetryWatcherOfNothing(t *testing.T) {
	rig.MustPanic(t, "clientgo: NewRetryWatcher: nil watcher",
		func() { _, _ = clientgo.NewRetryWatcher(t.Context(), "2", nil) })
}
