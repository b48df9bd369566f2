package simulate

import (
	"context"
	"time"

	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
	"github.com/go-lw/lw/simulate/internal/shape"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A World is a program with all that it needs, and what it should do there. Start and Steps are
// called once in each history, in a synctest bubble; the other functions may be called at any time.
// They must not use what an earlier history left behind.
type World struct {
	// Start runs the program until ctx is done: it makes a manager with c, sets up its controllers,
	// and returns what mgr.Start returns. It is called again after each crash.
	Start func(ctx context.Context, c *rest.Config) error
	// Steps are what users of the program do. Nil: the program alone.
	Steps func(w *W)

	// Before is the YAML of the objects that are there before the program starts, each as Apply takes
	// it.
	Before []string

	// Kubernetes is the version of the cluster, such as "1.31". It says whether the server streams
	// lists: if it does, a client that asks for that never starts on an older state. Default: the
	// version of the client-go that this module requires.
	Kubernetes string
	// Actors are the parts of a cluster that act beside the program. The garbage collector always
	// does.
	Actors Actors
	// Resources are what the server serves besides the built-in kinds of Kubernetes. One that has the
	// group, version and plural of a built-in kind takes its place.
	Resources []lwtest.Resource
	// CRDs is the folder of the program's own CustomResourceDefinitions, such as config/crd/bases.
	// Their defaults, rules and subresources hold on the server. See package crd.
	CRDs string
	// Admit are the program's webhooks, as functions.
	Admit []cluster.Admission

	// Always is called after each write, and AtRest when everything has come to rest. An error fails
	// the history.
	Always, AtRest func(s State) error
	// Ends reports whether end is as right as the end of the calm run. Nil: no other end is.
	Ends func(calm, end State) bool
	// Varies names fields that may be different at the end, such as "jobs.status.startTime". A kind,
	// such as "jobs", is all its fields, and there may be more of them at any time.
	Varies []string

	// Quiet is how long nothing may be written until the program is at rest. Default: two minutes of
	// the bubble's time. Give more if the program waits longer between two writes.
	Quiet time.Duration
	// Histories is how many histories a plain go test makes. Default: 300.
	Histories int
	// Without are the kinds of faults to leave out, such as "slow". The flag -simulate.without adds
	// others.
	Without []string
	// History is the only history to run, in the words of a report. "": as many as Histories says.
	History string

	kinds  []string                          // of faults
	shapes map[schema.GroupKind]*shape.Shape // what the schemas say of lists
	// The kinds of which one calm run alone has a name, and what both have. See names.
	random, common map[string]bool
}

// An Actor is a part of a cluster that writes as the program does, such as the Job controller, or
// the kubelet of all nodes.
type Actor struct {
	// Name is the actor's, for reports: "jobs", "kubelet".
	Name string
	// Act makes at most one write, directly on the server, by [lwtest.Objects], and says what it was,
	// such as "pod a/b is ready". It returns "" if there is nothing to do.
	//
	// The scheduler calls it when the program is at rest, and the whole of a call happens between two
	// steps of the program. What it does depends on the state of the server and the time of the bubble
	// alone: it looks at objects in the order of their keys, has no memory, starts no goroutine and
	// does not sleep. It is called again after a change of the server or when time has passed, until
	// it returns "". An error is one of the actor, and ends the test.
	Act func(ctx context.Context, server *lwtest.Server) (did string, err error)
}

// Actors are the actors of a World. Their order is that in which they act in the calm run.
type Actors []Actor

// A State is all objects of a server at one moment.
type State struct {
	// Objects are sorted by kind and key. They must not be changed.
	Objects []*unstructured.Unstructured
	names   map[string]bool // the kinds and names of all objects that there were
}

// A W is what Steps use. Its methods end the history if they fail.
type W struct {
	// Server is the server of the history, for what W has no method for. Its use is a step of its own:
	// the program does nothing meanwhile.
	Server *lwtest.Server
	h      *history
}

// Apply creates the objects of a YAML file, or updates them if they are there. A text with a line
// break is YAML itself. What the stored object has beyond the YAML is kept.
func (w *W) Apply(yaml string) { w.h.apply(yaml) }

// Delete deletes what Apply would apply, as a client does: in the background, or as how says.
func (w *W) Delete(yaml string, how ...metav1.DeletionPropagation) {
	w.h.delete(yaml, append(how, metav1.DeletePropagationBackground)[0])
}

// Settle lets everything happen until nothing is left to do. Without it the next step comes at any
// time. The end of Steps settles.
func (w *W) Settle() { w.h.settle() }

// Pass lets time pass, and all that happens within it.
func (w *W) Pass(d time.Duration) { w.h.pass(d) }
