package histories_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A history is what a server says, and what it has in the end.
type history struct {
	name      string
	legal     bool // a server that is right may do so
	server    func() *script
	transform func(*corev1.ConfigMap) error
	rewound   bool              // versions may go back
	truth     map[string]string // name to uid@version
}

func objs(objs ...*corev1.ConfigMap) []*corev1.ConfigMap { return objs }

var histories = []history{{
	name: "deleted and created again while the watch was down", legal: true,
	server: func() *script {
		return &script{
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "20", objs: objs(config("a", "u2", "15"))}},
			watches: [][]step{{pause(time.Second), expire(), end}, {}},
		}
	},
	truth: map[string]string{"a": "u2@15"},
}, {
	name: "the watch has expired, nothing has changed", legal: true,
	server: func() *script {
		return &script{
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "20", objs: objs(config("a", "u1", "5"))}},
			watches: [][]step{{pause(time.Second), expire(), end}, {}},
		}
	},
	truth: map[string]string{"a": "u1@5"},
}, {
	name: "deleted while the watch was down", legal: true,
	server: func() *script {
		return &script{
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"), config("b", "u2", "6"))}, {version: "20", objs: objs(config("b", "u2", "6"))}},
			watches: [][]step{{pause(time.Second), expire(), end}, {}},
		}
	},
	truth: map[string]string{"b": "u2@6"},
}, {
	name: "the transform fails on a watch event", legal: true,
	server: func() *script {
		return &script{
			lists: []answer{
				{version: "10", objs: objs(config("a", "u1", "5"), config("b", "u2", "6"))},
				{version: "12", objs: objs(config("a", "u1", "11"), config("b", "u2", "12"))},
			},
			watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "11")),
				send(watch.Modified, config("b", "u2", "12"))}, {}},
		}
	},
	transform: failsAt("11"),
	truth:     map[string]string{"a": "u1@11", "b": "u2@12"},
}, {
	name: "the transform fails on a listed object", legal: true,
	server: func() *script {
		return &script{lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"), config("b", "u2", "6"))}}}
	},
	transform: failsAt("5"),
	truth:     map[string]string{"a": "u1@5", "b": "u2@6"},
}, {
	name: "the server is restored from a backup", legal: true,
	server: func() *script {
		return &script{
			lists:   []answer{{version: "100", objs: objs(config("a", "u1", "90"))}, {version: "50", objs: objs(config("a", "u1", "40"))}},
			watches: [][]step{{pause(time.Second), end}, {pause(4 * time.Minute), end}},
		}
	},
	rewound: true,
	truth:   map[string]string{"a": "u1@40"},
}, {
	name: "the streamed list is never ended",
	server: func() *script {
		return &script{
			streams: []step{send(watch.Added, config("a", "u1", "5"))},
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"))}},
		}
	},
	truth: map[string]string{"a": "u1@5"},
}, {
	name: "a replica that lags answers the list, whatever was asked for",
	server: func() *script {
		return &script{
			lists: []answer{
				{version: "20", objs: objs(config("a", "u1", "15"), config("b", "u2", "18"))},
				{version: "8", objs: objs(config("a", "u1", "5"))},
				{version: "20", objs: objs(config("a", "u1", "15"), config("b", "u2", "18"))},
			},
			watches: [][]step{{pause(time.Second), expire(), end}, {pause(time.Second), expire(), end}, {}},
		}
	},
	truth: map[string]string{"a": "u1@15", "b": "u2@18"},
}, {
	name: "events of one object go back",
	server: func() *script {
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "15", objs: objs(config("a", "u1", "15"))}},
			watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "15")),
				send(watch.Modified, config("a", "u1", "12"))}, {}},
		}
	},
	truth: map[string]string{"a": "u1@15"},
}, {
	name: "an event behind a bookmark, then the end",
	server: func() *script {
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "100", objs: objs(config("a", "u1", "50"))}},
			watches: [][]step{{pause(time.Second), bookmark("100"), pause(time.Second),
				send(watch.Modified, config("a", "u1", "50")), pause(time.Second), end}, {}},
		}
	},
	truth: map[string]string{"a": "u1@50"},
}, {
	name: "an old bookmark",
	server: func() *script {
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "12", objs: objs(config("a", "u1", "12"))}},
			watches: [][]step{{pause(time.Second), send(watch.Modified, config("a", "u1", "12")), pause(time.Second),
				bookmark("10")}, {}},
		}
	},
	truth: map[string]string{"a": "u1@12"},
}, {
	name: "an old bookmark, then the end, after a deletion and a creation",
	server: func() *script {
		recreated := []step{send(watch.Deleted, config("a", "u1", "11")), send(watch.Added, config("a", "u2", "12"))}
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "12", objs: objs(config("a", "u2", "12"))}},
			watches: [][]step{
				append(append([]step{pause(time.Second)}, recreated...), pause(time.Second), bookmark("10"), pause(time.Second), end),
				recreated, {},
			},
		}
	},
	truth: map[string]string{"a": "u2@12"},
}, {
	name: "an event without a version, then the end",
	server: func() *script {
		// The watch that follows without a version begins with what is there, and b is not.
		return &script{
			lists: []answer{
				{version: "10", objs: objs(config("a", "u1", "5"), config("b", "u2", "6"))},
				{version: "20", objs: objs(config("a", "u1", "11"))},
			},
			watches: [][]step{
				{pause(time.Second), send(watch.Modified, config("a", "u1", "")), pause(time.Second), end},
				{send(watch.Added, config("a", "u1", "11"))},
			},
		}
	},
	truth: map[string]string{"a": "u1@11"},
}, {
	name: "an event of an unknown type",
	server: func() *script {
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "12", objs: objs(config("a", "u1", "11"))}},
			watches: [][]step{{pause(time.Second), send("REPLACED", config("a", "u1", "11")), pause(time.Second),
				bookmark("12")}, {}},
		}
	},
	truth: map[string]string{"a": "u1@11"},
}, {
	name: "an event with an object of another type",
	server: func() *script {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", ResourceVersion: "11"}}
		return &script{
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "12", objs: objs(config("a", "u1", "11"), config("b", "u2", "12"))}},
			watches: [][]step{{pause(time.Second), send(watch.Modified, secret), send(watch.Added, config("b", "u2", "12"))}, {}},
		}
	},
	truth: map[string]string{"a": "u1@11", "b": "u2@12"},
}, {
	name: "a deletion twice",
	server: func() *script {
		return &script{
			lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "11"}},
			watches: [][]step{{pause(time.Second), send(watch.Deleted, config("a", "u1", "11")),
				send(watch.Deleted, config("a", "u1", "11"))}, {}},
		}
	},
	truth: map[string]string{},
}, {
	name: "a deletion of what was never there",
	server: func() *script {
		return &script{
			lists:   []answer{{version: "10", objs: objs(config("a", "u1", "5"))}, {version: "11", objs: objs(config("a", "u1", "5"))}},
			watches: [][]step{{pause(time.Second), send(watch.Deleted, config("b", "u2", "11"))}, {}},
		}
	},
	truth: map[string]string{"a": "u1@5"},
}, {
	name: "a list has one object twice",
	server: func() *script {
		return &script{lists: []answer{{version: "10", objs: objs(config("a", "u1", "5"), config("a", "u1", "6"))}}}
	},
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
		f := follow(h.server(), h.transform)
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
