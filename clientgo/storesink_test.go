package clientgo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/textlogger"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A recordingStore is a cache.ReflectorStore with all optional methods, which notes its calls.
type recordingStore struct {
	calls
	version string
	refuse  int   // how many lists are refused
	err     error // of all other calls
}

func (s *recordingStore) Add(obj any) error    { s.note("add %s", describe(obj)); return s.err }
func (s *recordingStore) Update(obj any) error { s.note("update %s", describe(obj)); return s.err }
func (s *recordingStore) Delete(obj any) error { s.note("delete %s", describe(obj)); return s.err }
func (s *recordingStore) Resync() error        { s.note("resync"); return s.err }

func (s *recordingStore) Replace(objs []any, version string) error {
	s.note("replace %s at %s", strings.Join(names(objs), " "), version)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 {
		s.refuse--
		return errors.New("no room")
	}
	return nil
}

func (s *recordingStore) UpdateResourceVersion(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

func (s *recordingStore) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// A bookmarkStore is a recordingStore that takes bookmarks as well.
type bookmarkStore struct{ recordingStore }

func (s *bookmarkStore) Bookmark(version string) error { s.note("bookmark %s", version); return s.err }

// reflectors are the ways to fill a store. client-go's is the truth.
var reflectors = map[string]func(cache.ListerWatcher, cache.ReflectorStore, time.Duration) reflector{
	"client-go": func(from cache.ListerWatcher, store cache.ReflectorStore, resync time.Duration) reflector {
		return cache.NewReflector(from, &corev1.Pod{}, store, resync)
	},
	"NewReflector": func(from cache.ListerWatcher, store cache.ReflectorStore, resync time.Duration) reflector {
		return clientgo.NewReflector(from, &corev1.Pod{}, store, resync)
	},
}

type reflector interface {
	RunWithContext(context.Context)
	LastSyncResourceVersion() string
}

// A reflector calls a store as client-go's does, history by history. Bookmarks are left out: lw's
// server sends them at other times.
func TestReflectorStories(t *testing.T) {
	tell := func(seed uint64, kind string) (told []string) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			server := newPodMemory(labelled("a"), labelled("b"))
			store := &recordingStore{}
			r := reflectors[kind](server, store, time.Duration(rnd.IntN(2))*time.Minute)
			stop := runInformer(t, r)
			note := func(step string) {
				told = append(told, fmt.Sprintf("%s: %q version %s, told %s", step, store.take(), r.LastSyncResourceVersion(),
					store.last()))
			}
			note("the first list")
			there := map[string]bool{"a": true, "b": true}
			for i := range 20 {
				name := string(rune('a' + rnd.IntN(4)))
				switch {
				case !there[name]:
					server.create(t, labelled(name))
				case rnd.IntN(3) == 0:
					server.delete(t, name)
				default:
					server.update(t, labelled(name, fmt.Sprintf("v=%d", i)))
					there[name] = false
				}
				there[name] = !there[name]
				note(fmt.Sprint("step ", i))
			}
			time.Sleep(90 * time.Second)
			note("later")
			stop()
		})
		return told
	}
	for seed := range uint64(20) {
		rig.Same(t, fmt.Sprintf("seed %d: client-go and lw", seed), tell(seed, "client-go"), tell(seed, "NewReflector"))
	}
}

// A reflector may run again, over the same store, as often as one likes; two runs at the same time
// wait for each other.
func TestReflectorRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPodMemory(labelled("a"))
		store := &recordingStore{}
		r := clientgo.NewReflector(server, &corev1.Pod{}, store, 0)
		if v := r.LastSyncResourceVersion(); v != "" || r.Status().Synced {
			t.Errorf("before the first run: version %q, %+v", v, r.Status())
		}
		pods := "a"
		for i := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			one, two := running(ctx, r), running(ctx, r)
			rig.Same(t, "calls", []string{fmt.Sprintf("replace %s at %s", pods, server.ResourceVersion())}, store.take())
			rig.Same(t, "synced", true, r.Status().Synced)
			cancel()
			<-one
			<-two
			server.create(t, labelled(fmt.Sprint("new", i)))
			rig.Same(t, "calls after the run", nil, store.take())
			pods += fmt.Sprint(" new", i)
		}
	})
}

// A list that the store refuses is made again, streamed or not, as with client-go, and each refusal
// is reported. A list that the store takes is not made again.
func TestReflectorOfAStoreThatRefuses(t *testing.T) {
	for kind, new := range reflectors {
		for i := range 6 {
			streamed, refuse := i < 3, i%3
			rig.Subtest(t, fmt.Sprintf("%s, streamed %t, %d", kind, streamed, refuse), func(t *testing.T) {
				errs := handleErrors(t)
				store := &recordingStore{refuse: refuse}
				server := newPodMemory(labelled("a"))
				from := cache.ListerWatcher(server)
				if !streamed {
					from = cache.ToListWatcherWithWatchListSemantics(server.listWatch(), optsOut{})
				}
				stop := runInformer(t, new(from, store, 0))
				time.Sleep(time.Hour)
				stop()
				rig.Same(t, "lists", refuse+1, len(store.take()))
				if kind != "client-go" { // which does not report the first refusal of a streamed list
					rig.Same(t, "errors", refuse, len(errs.refused("no room")))
				}
			})
		}
	}
}

// Each list and each event reaches the store as it is, with its version if it has one. What the
// store says to it is reported, with the key of the object and the cause.
func TestStoreSinkCalls(t *testing.T) {
	c := labelled("c", "v=1")
	for _, refusal := range []error{nil, errors.New("no room")} {
		errs := handleErrors(t)
		store := &bookmarkStore{recordingStore{err: refusal}}
		sink := clientgo.StoreSink[*corev1.Pod](store)
		for _, tc := range []struct {
			do                func()
			call, version, of string
		}{
			{func() { sink.Replace([]*corev1.Pod{labelled("a"), labelled("b")}, "5") }, "replace a b at 5", "", ""},
			{func() { sink.Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Added, Object: c, ResourceVersion: "6"}) }, "add c1",
				"6", "ns/c"},
			{func() { sink.Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Modified, Object: c, ResourceVersion: "7"}) },
				"update c1", "7", "ns/c"},
			{func() { sink.Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Modified, Object: c}) }, "update c1", "7", "ns/c"},
			{func() { sink.Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Deleted, Object: c, ResourceVersion: "8"}) },
				"delete c1", "8", "ns/c"},
			{func() { sink.Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Bookmark, ResourceVersion: "9"}) }, "bookmark 9", "9",
				"version"},
		} {
			tc.do()
			store.mu.Lock()
			got := append(store.calls.lines, store.version)
			store.calls.lines = nil
			store.mu.Unlock()
			rig.Same(t, "call and version", []string{tc.call, tc.version}, got)
			want := 0
			if refusal != nil && tc.of != "" {
				want = 1
			}
			if got := errs.refused("no room"); len(got) != want || want > 0 && (!errors.Is(got[0], refusal) ||
				!strings.Contains(got[0].Error(), tc.of)) {
				t.Errorf("%s: reported %v", tc.call, got)
			}
		}
	}
	// A store without the optional methods gets no bookmarks.
	plain := cache.NewUndeltaStore(func([]any) { t.Error("a bookmark is a change") }, cache.MetaNamespaceKeyFunc)
	clientgo.StoreSink[*corev1.Pod](plain).Apply(lw.WatchEvent[*corev1.Pod]{Type: watch.Bookmark, ResourceVersion: "9"})
}

// A reflector heeds its options, and says in the log of the options, or else of the context, that
// it cannot go on. A second call of Run waits for the first, but not longer than for its context.
func TestReflectorOptions(t *testing.T) {
	for asked, least := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Second: 5 * time.Minute,
		time.Hour: time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			errs := handleErrors(t)
			server, store := &timeouts{podMemory: newPodMemory(labelled("a"))}, &recordingStore{err: errors.New("no resyncs")}
			r := clientgo.NewReflectorWithOptions(server, &corev1.Pod{}, store, cache.ReflectorOptions{
				Name: "mine", MinWatchTimeout: asked, ResyncPeriod: time.Minute,
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := running(ctx, r)
			time.Sleep(90 * time.Second)
			if got := server.last(); got < least || got > 2*least {
				t.Errorf("asked for %v: a watch of %v", asked, got)
			}
			if got := errs.refused("resync"); len(got) != 1 || !errors.Is(got[0], store.err) {
				t.Errorf("reported %v, want the error of one Resync", got)
			}
			rig.Same(t, "its name", "mine", r.Status().Name)
			impatient, giveUp := context.WithTimeout(t.Context(), time.Second)
			defer giveUp()
			r.RunWithContext(impatient)
			if isClosed(ended) || impatient.Err() == nil {
				t.Error("the second Run has not waited")
			}
			cancel()
			<-ended
		})
	}
	for _, own := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			errs := handleErrors(t)
			var book, other bytes.Buffer
			options, in := cache.ReflectorOptions{Name: "mine", ResyncPeriod: time.Minute}, &other
			if ours := loggerTo(&book); own {
				options.Logger, in = &ours, &book
			}
			server := newPodMemory()
			server.Fail(fmt.Errorf("no such field: %w", lw.ErrPermanent))
			ctx, cancel := context.WithTimeout(loggedTo(t, &other), time.Hour)
			defer cancel()
			clientgo.NewReflectorWithOptions(server, &corev1.Pod{}, &recordingStore{}, options).RunWithContext(ctx)
			rig.OK(t, ctx.Err())
			if !strings.Contains(in.String(), "no such field") || !strings.Contains(in.String(), `reflector="mine"`) || own &&
				other.Len() > 0 {
				t.Errorf("log of the options: %s\nof the context: %s", &book, &other)
			}
			rig.Same(t, "errors that were reported", 1, len(errs.refused("no such field")))
		})
	}
}

// A reflector says that it has synced where client-go's does: in its logger, at V(2).
func TestReflectorLogsTheSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book bytes.Buffer
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(2), textlogger.Output(&book)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		options := cache.ReflectorOptions{Name: "mine", Logger: &logger}
		clientgo.NewReflectorWithOptions(newPodMemory(labelled("a")), &corev1.Pod{}, &recordingStore{},
			options).RunWithContext(ctx)
		if !strings.Contains(book.String(), "mine: synced") {
			t.Errorf("the log: %s", &book)
		}
	})
}

// Any store takes the objects of any source, typed as they are.
func TestStoreSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := lw.NewMemory(labelled("a"))
		var sent [][]string
		undelta := cache.NewUndeltaStore(func(objs []any) { sent = append(sent, names(objs)) }, cache.MetaNamespaceKeyFunc)
		rig.Start(t, lw.NewReflector(memory, clientgo.StoreSink[*corev1.Pod](undelta), nil))
		synctest.Wait()
		rig.Must[*corev1.Pod](t)(memory.Create(t.Context(), labelled("b")))
		synctest.Wait()
		rig.Same(t, "", [][]string{{"a"}, {"a", "b"}}, sent)
	})
}

// The kubelet's source of pods: a store that sends all pods after each change.
func ExampleStoreSink() {
	clientset := fake.NewClientset(pod("default", "web"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sent := make(chan []any)
	store := cache.NewUndeltaStore(func(pods []any) {
		select {
		case sent <- pods:
		case <-ctx.Done():
		}
	}, cache.MetaNamespaceKeyFunc)

	pods := lw.NewReflector(lw.FromClient(clientset.CoreV1().Pods("")), clientgo.StoreSink[*corev1.Pod](store), nil)
	go pods.Run(ctx)
	for _, p := range <-sent {
		fmt.Println(p.(*corev1.Pod).Name)
	}
	// Output: web
}

// The same with a ListerWatcher. A Reflector may run again.
func ExampleNewReflector() {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	listerWatcher := listerWatcher(fake.NewClientset(pod("default", "web")))

	reflector := clientgo.NewReflector(listerWatcher, &corev1.Pod{}, store, 0)
	for range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); reflector.RunWithContext(ctx) }()
		for !reflector.Status().Synced {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-ended
	}
	fmt.Println(store.ListKeys())
	// Output: [default/web]
}

// A slowStore is a store whose Resync takes its time.
type slowStore struct {
	cache.Store
	resyncs chan struct{}
}

func (s slowStore) Resync() error {
	<-s.resyncs
	return nil
}

// When Run has returned the store is called by nobody any more.
func TestReflectorWaitsForAResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := slowStore{cache.NewStore(cache.MetaNamespaceKeyFunc), make(chan struct{})}
		r := clientgo.NewReflector(newPodMemory(labelled("a")), &corev1.Pod{}, store, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		ended := running(ctx, r)
		time.Sleep(90 * time.Second)
		cancel()
		time.Sleep(time.Minute)
		rig.Same(t, "Run has returned during a Resync", false, isClosed(ended))
		close(store.resyncs)
		<-ended
	})
}
