package wire

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/bench/internal/compare"
)

// A Follower follows the pods of the server that config names. add and update are called one at a
// time, add for each pod of the first list. start does not block; what it starts ends with ctx. A
// failure ends the process.
type Follower func(ctx context.Context, config *rest.Config, add, update func(*corev1.Pod)) (start func(), err error)

// followers has the registered followers by the names of their sides.
var followers = map[string]Follower{}

// Register makes f measurable as the side name of a case. Call it before [Child].
func Register(name string, f Follower) { followers[name] = f }

// Following returns c with sides that are registered: each follows n pods in a child process, first
// a streamed list, then updates of the status, then of the version alone. The keys of a sample are
// sync.*, event.*, touch.*, live, peak and rss, which is the resident memory right after the first
// list. n is 10,000 or less if it is 0.
func Following(c compare.Case, format Format, n int, sides ...string) compare.Case {
	c.Profiles = true
	c.Setup = setup(c.Name, job{Path: streamed, Format: format, Pods: n}, true, false, sides)
	return c
}
