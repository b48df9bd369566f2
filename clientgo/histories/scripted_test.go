package histories_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	name:    "an event with an object of another type",
	lists:   []answer{listed("10", config("a", "u1", "5")), listed("12", config("a", "u1", "11"), config("b", "u2", "12"))},
	watches: [][]step{{pause(time.Second), send(watch.Modified, &corev1.Secret{ObjectMeta: config("a", "", "11").ObjectMeta}), send(watch.Added, config("b", "u2", "12"))}, {}},
	truth:   map[string]string{"a": "u1@11", "b": "u2@12"},
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
func (h *history) judge(t *testing.T, follow func(server, func(*corev1.ConfigMap) error) *follower) (broken map[string]string) {
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
