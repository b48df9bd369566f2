package histories_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
)

// A history is what a server says, and what it has in the end.
type history struct {
	name      string
	legal     bool // a server that is right may do so
	lists     []answer
	watches   [][]step // as of a script
	streams   []step
	transform func(*corev1.ConfigMap) error
	rewound   bool              // versions may go back
	truth     map[string]string // name to uid@version
}

func listed(version string, objs ...*corev1.ConfigMap) answer { return answer{version, objs} }

var histories = []history{{
	name: "deleted and created again while the watch was down", legal: true,
	lists:   []answer{listed("10", config("a", "u1", "5")), listed("20", config("a", "u2", "15"))},
	watches: [][]step{{pause(time.Second), expire(), end}, {}},
	truth:   map[string]string{"a": "u2@15"},
}, {
	name: "the watch has expired, nothing has changed", legal: true,
	lists:   []answer{listed("10", config("a", "u1", "5")), listed("20", config("a", "u1", "5"))},
	watches: [][]step{{pause(time.Second), expire(), end}, {}},
	truth:   map[string]string{"a": "u1@5"},
}, {
	name: "deleted while the watch was down", legal: true,
	lists:   []answer{listed("10", config("a", "u1", "5"), config("b", "u2", "6")), listed("20", config("b", "u2", "6"))},
	watches: [][]step{{pause(time.Second), expire(), end}, {}},
	truth:   map[string]string{"b": "u2@6"},
}, {
	name: "the transform fails on a watch event", legal: true,
	lists: []answer{
		listed("10", config("a", "u1", "5"), config("b", "u2", "6")),
		listed("12", config("a", "u1", "11"), config("b", "u2", "12")),
	},
	watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "11")),
		send(watch.Modified, config("b", "u2", "12"))}, {}},
	transform: failsAt("11"),
	truth:     map[string]string{"a": "u1@11", "b": "u2@12"},
}, {
	name: "the transform fails on a listed object", legal: true,
	lists:     []answer{listed("10", config("a", "u1", "5"), config("b", "u2", "6"))},
	transform: failsAt("5"),
	truth:     map[string]string{"a": "u1@5", "b": "u2@6"},
}, {
	name: "the server is restored from a backup", legal: true,
	lists:   []answer{listed("100", config("a", "u1", "90")), listed("50", config("a", "u1", "40"))},
	watches: [][]step{{pause(time.Second), end}, {pause(4 * time.Minute), end}},
	rewound: true,
	truth:   map[string]string{"a": "u1@40"},
}, {
	name:    "the streamed list is never ended",
	streams: []step{send(watch.Added, config("a", "u1", "5"))},
	lists:   []answer{listed("10", config("a", "u1", "5"))},
	truth:   map[string]string{"a": "u1@5"},
}, {
	name: "a replica that lags answers the list, whatever was asked for",
	lists: []answer{
		listed("20", config("a", "u1", "15"), config("b", "u2", "18")),
		listed("8", config("a", "u1", "5")),
		listed("20", config("a", "u1", "15"), config("b", "u2", "18")),
	},
	watches: [][]step{{pause(time.Second), expire(), end}, {pause(time.Second), expire(), end}, {}},
	truth:   map[string]string{"a": "u1@15", "b": "u2@18"},
}, {
	name:  "events of one object go back",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("15", config("a", "u1", "15"))},
	watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "15")),
		send(watch.Modified, config("a", "u1", "12"))}, {}},
	truth: map[string]string{"a": "u1@15"},
}, {
	name:  "an event behind a bookmark, then the end",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("100", config("a", "u1", "50"))},
	watches: [][]step{{pause(time.Second), bookmark("100"), pause(time.Second),
		send(watch.Modified, config("a", "u1", "50")), pause(time.Second), end}, {}},
	truth: map[string]string{"a": "u1@50"},
}, {
	name:  "an old bookmark",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("12", config("a", "u1", "12"))},
	watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "12")), pause(time.Second),
		bookmark("10")}, {}},
	truth: map[string]string{"a": "u1@12"},
}, {
	name:  "an old bookmark, then the end, after a deletion and a creation",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("12", config("a", "u2", "12"))},
	watches: [][]step{
		{pause(time.Second), send(watch.Deleted, config("a", "u1", "11")), send(watch.Added, config("a", "u2", "12")),
			pause(time.Second), bookmark("10"), pause(time.Second), end},
		{send(watch.Deleted, config("a", "u1", "11")), send(watch.Added, config("a", "u2", "12"))}, {},
	},
	truth: map[string]string{"a": "u2@12"},
}, {
	// The watch that follows without a version begins with what is there, and b is not.
	name: "an event without a version, then the end",
	lists: []answer{
		listed("10", config("a", "u1", "5"), config("b", "u2", "6")),
		listed("20", config("a", "u1", "11")),
	},
	watches: [][]step{
		{pause(time.Second), send(watch.Modified, config("a", "u1", "")), pause(time.Second), end},
		{send(watch.Added, config("a", "u1", "11"))},
	},
	truth: map[string]string{"a": "u1@11"},
}, {
	name:  "an event of an unknown type",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("12", config("a", "u1", "11"))},
	watches: [][]step{{pause(time.Second), send("REPLACED", config("a", "u1", "11")), pause(time.Second),
		bookmark("12")}, {}},
	truth: map[string]string{"a": "u1@11"},
}, {
	name: "an event with an object of another type",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("12", config("a", "u1", "11"),
		config("b", "u2", "12"))},
	watches: [][]step{{pause(time.Second), send(watch.Modified,
		&corev1.Secret{ObjectMeta: config("a", "", "11").ObjectMeta}), send(watch.Added, config("b", "u2", "12"))}, {}},
	truth: map[string]string{"a": "u1@11", "b": "u2@12"},
}, {
	name:  "a deletion twice",
	lists: []answer{listed("10", config("a", "u1", "5")), listed("11")},
	watches: [][]step{{pause(time.Second), send(watch.Deleted, config("a", "u1", "11")),
		send(watch.Deleted, config("a", "u1", "11"))}, {}},
	truth: map[string]string{},
}, {
	name:    "a deletion of what was never there",
	lists:   []answer{listed("10", config("a", "u1", "5")), listed("11", config("a", "u1", "5"))},
	watches: [][]step{{pause(time.Second), send(watch.Deleted, config("b", "u2", "11"))}, {}},
	truth:   map[string]string{"a": "u1@5"},
}, {
	name:  "a list has one object twice",
	lists: []answer{listed("10", config("a", "u1", "5"), config("a", "u1", "6"))},
	truth: map[string]string{"a": "u1@6"},
}}

// failsAt is a transform that fails on one version.
func failsAt(version string) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		if c.ResourceVersion == version {
			return errors.New("no use for it")
		}
		return nil
	}
}

// judge puts one informer through h, for an hour, and returns the rules that it breaks.
func (h *history) judge(t *testing.T,
	follow func(server, func(*corev1.ConfigMap) error) *follower) (broken map[string]string) {
	synctest.Test(t, func(t *testing.T) {
		f := follow(&script{lists: h.lists, watches: h.watches, streams: h.streams}, h.transform)
		f.mu.Lock()
		f.rewound = h.rewound
		f.mu.Unlock()
		for at := time.Duration(0); at < time.Hour; {
			d := 10 * time.Millisecond
			if at > 10*time.Second {
				d = 5 * time.Second
			}
			time.Sleep(d)
			at += d
			f.look()
		}
		f.settle(h.truth)
		f.stop()
		broken = f.broken
	})
	return broken
}

// random puts both informers, at the same time, through one random history of a server that is
// right: writes, watches that end, refusals, compaction. It returns the rules that each breaks.
func random(t *testing.T, seed uint64) (broken []map[string]string) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		m := lw.NewMemory[*corev1.ConfigMap]()
		put := func() {
			c := config(fmt.Sprint("c", rnd.IntN(4)), "", "")
			c.Data = map[string]string{"n": fmt.Sprint(rnd.IntN(100))}
			_, err := m.Create(t.Context(), c)
			if err != nil {
				_, err = m.Update(t.Context(), c)
			}
			if err != nil {
				t.Error(err)
			}
		}
		remove := func() {
			// It may not be there.
			_, _ = m.Delete(t.Context(), lw.Key{Namespace: "default", Name: fmt.Sprint("c", rnd.IntN(4))}, "")
		}
		for range rnd.IntN(4) {
			put()
		}
		var fs []*follower
		for _, follow := range follows {
			fs = append(fs, follow(memory{m}, nil))
		}
		for range 10 + rnd.IntN(40) {
			switch n := rnd.IntN(20); {
			case n < 9:
				put()
			case n < 12:
				remove()
			case n < 13:
				remove()
				put()
			case n < 14:
				m.Disconnect()
			case n < 15:
				m.Compact()
			case n < 16: // what is written while no watch is open is never told
				m.Disconnect()
				remove()
				put()
				m.Compact()
			case n < 17:
				m.Fail(errors.New("connection refused"))
			case n < 18:
				m.Fail(nil)
			default:
				time.Sleep([]time.Duration{time.Millisecond, time.Second, time.Minute}[rnd.IntN(3)])
			}
			if rnd.IntN(2) == 0 {
				synctest.Wait()
			}
			for _, f := range fs {
				f.look()
			}
		}
		m.Fail(nil)
		time.Sleep(time.Hour)
		truth := map[string]string{}
		for c := range m.All() {
			truth[c.Name] = id(c)
		}
		for _, f := range fs {
			f.settle(truth)
			f.stop()
			broken = append(broken, f.broken)
		}
	})
	return broken
}

// A server is what both informers follow, each with its own.
type server interface {
	list(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error)
	watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

// config is an object; uid tells it from others of its name.
func config(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

// id is what of an object is compared: uid@version.
func id(c *corev1.ConfigMap) string { return string(c.UID) + "@" + c.ResourceVersion }

// script is a server that says what it was told to, whatever it was asked for.
type script struct {
	lists []answer
	// watches[n] is what watch n sends before it waits. Later watches send what the last one sends.
	watches [][]step
	streams []step // what a streamed list sends; nil: it is refused

	mu      sync.Mutex
	listed  int
	watched int
}

type answer struct {
	version string
	objs    []*corev1.ConfigMap
}

// A step is an event, or a pause, or the end.
type step struct {
	event watch.Event
	pause time.Duration
	end   bool
}

func send(typ watch.EventType, obj runtime.Object) step {
	return step{event: watch.Event{Type: typ, Object: obj}}
}

func bookmark(version string) step {
	return send(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}})
}

func pause(d time.Duration) step { return step{pause: d} }

func expire() step {
	status := apierrors.NewResourceExpired("too old resource version").ErrStatus
	return send(watch.Error, &status)
}

var end = step{end: true}

func (s *script) list(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.lists[min(s.listed, len(s.lists)-1)]
	s.listed++
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: a.version}}
	for _, c := range a.objs {
		list.Items = append(list.Items, *c.DeepCopy())
	}
	return list, nil
}

func (s *script) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var steps []step
	switch {
	case opts.SendInitialEvents != nil && s.streams == nil:
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)
	case opts.SendInitialEvents != nil:
		steps = s.streams
	default:
		if len(s.watches) > 0 {
			steps = s.watches[min(s.watched, len(s.watches)-1)]
		}
		s.watched++
	}
	return newStream(ctx, opts, func(ctx context.Context, send func(watch.Event) bool) {
		for _, st := range steps {
			switch {
			case st.end:
				return
			case st.pause > 0:
				select {
				case <-time.After(st.pause):
				case <-ctx.Done():
					return
				}
			case !send(st.event):
				return
			}
		}
		<-ctx.Done()
	}), nil
}

// stream is a watch.Interface of what a function sends until the watch is over, which it is after
// its time.
type stream struct {
	cancel context.CancelFunc
	events chan watch.Event
}

func newStream(ctx context.Context, opts metav1.ListOptions,
	run func(context.Context, func(watch.Event) bool)) *stream {
	ctx, cancel := context.WithCancel(ctx)
	if opts.TimeoutSeconds != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*opts.TimeoutSeconds)*time.Second)
	}
	s := &stream{cancel: cancel, events: make(chan watch.Event)}
	go func() {
		defer close(s.events)
		run(ctx, func(ev watch.Event) bool {
			ev.Object = ev.Object.DeepCopyObject()
			select {
			case s.events <- ev:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return s
}

func (s *stream) Stop()                          { s.cancel() }
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// memory is a server that is right: lw's own, which is held to the rules of real ones.
type memory struct{ *lw.Memory[*corev1.ConfigMap] }

func (m memory) list(ctx context.Context, opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	list := &corev1.ConfigMapList{}
	var err error
	list.ListMeta, err = m.List(ctx, opts, func(c *corev1.ConfigMap, err error) error {
		if err == nil {
			list.Items = append(list.Items, *c)
		}
		return err
	})
	return list, err
}

func (m memory) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return newStream(ctx, opts, func(ctx context.Context, send func(watch.Event) bool) {
		over := errors.New("the watch is over")
		err := m.Watch(ctx, opts, func(ev lw.WatchEvent[*corev1.ConfigMap]) error {
			if ev.Type == watch.Bookmark {
				ev.Object = config("", "", ev.ResourceVersion)
				if ev.InitialEventsEnd {
					ev.Object.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
				}
			}
			if !send(watch.Event{Type: ev.Type, Object: ev.Object}) {
				return over
			}
			return nil
		})
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			s := status.Status()
			send(watch.Event{Type: watch.Error, Object: &s})
		}
	}), nil
}
