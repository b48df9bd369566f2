package clientgo

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/why"
)

// ReasonsOptions are options of [Reasons]. nil is the zero value.
type ReasonsOptions struct {
	// Name is that of the controller on the board. Default: "queue".
	Name string
	// Board shows what the keys of the queue run for most often, and which run in a loop, until the
	// queue is shut down. Default: none.
	Board *lw.Board
}

// Reasons returns a queue that does what queue does, and knows why each key runs: what handlers of
// lw add to it belongs to the event that they are called for. Give it to handlers and to workers in
// the place of queue, before handlers are added. It costs about a microsecond an event, and keeps
// the old versions of up to 1,024 objects that have changed for keys that wait.
//
//	queue := clientgo.Reasons(plain, &clientgo.ReasonsOptions{Board: &board}) // a queue of client-go
//	pods.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))
//	…
//	key, _ := queue.Get()
//	logger.Info("reconciling", "key", key, "reasons", queue.Of(key))
func Reasons[K comparable](queue workqueue.TypedRateLimitingInterface[K], o *ReasonsOptions) *ReasonsQueue[K] {
	if isNil(queue) {
		panic("clientgo: Reasons: nil queue")
	}
	if o == nil {
		o = &ReasonsOptions{}
	}
	_, priorities := queue.(interface{ GetWithPriority() (K, int, bool) })
	q := &ReasonsQueue[K]{TypedRateLimitingInterface: queue, why: why.New[K](priorities), remove: func() {}}
	if o.Board != nil {
		q.remove = why.Show(o.Board, cmp.Or(o.Name, "queue"), q.why.Status)
	}
	return q
}

// A ReasonsQueue is the result of [Reasons]. All methods are safe for concurrent use.
type ReasonsQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	why    *why.Queue[K]
	remove func() // from the board
}

// Of returns why key runs, which Get has returned, until Done. A change is the net one since the
// key was returned before. The list is empty if that run has seen all that there was.
func (q *ReasonsQueue[K]) Of(key K) ReasonList {
	var list ReasonList
	for _, r := range q.why.Of(key) {
		list = append(list, Reason{
			Collection: r.Collection, Object: r.Key, Type: lw.EventType(r.Type), Cause: lw.Cause(r.Cause), Requeue: Requeue(r.Requeue),
			Events: r.Events, After: r.After, Err: r.Err, Late: r.Late, why: r,
		})
	}
	return list
}

// Add adds key.
func (q *ReasonsQueue[K]) Add(key K) {
	q.Adding(key, 0, false)
	q.TypedRateLimitingInterface.Add(key)
}

// AddAfter adds key after a while.
func (q *ReasonsQueue[K]) AddAfter(key K, after time.Duration) {
	q.Adding(key, after, false)
	q.TypedRateLimitingInterface.AddAfter(key, after)
}

// AddRateLimited adds key when its rate allows it.
func (q *ReasonsQueue[K]) AddRateLimited(key K) {
	q.Adding(key, 0, true)
	q.TypedRateLimitingInterface.AddRateLimited(key)
}

// Get waits for a key, which runs until Done.
func (q *ReasonsQueue[K]) Get() (key K, shutdown bool) {
	if key, shutdown = q.TypedRateLimitingInterface.Get(); !shutdown {
		q.Taken(key)
	}
	return key, shutdown
}

// Done says that the run of key has ended.
func (q *ReasonsQueue[K]) Done(key K) {
	q.why.Done(key)
	q.TypedRateLimitingInterface.Done(key)
}

// ShutDown shuts the queue down.
func (q *ReasonsQueue[K]) ShutDown() {
	q.remove()
	q.TypedRateLimitingInterface.ShutDown()
}

// ShutDownWithDrain shuts the queue down when all keys are done.
func (q *ReasonsQueue[K]) ShutDownWithDrain() {
	q.remove()
	q.TypedRateLimitingInterface.ShutDownWithDrain()
}

// Adding notes that key is about to be added in another way than by the methods of q: after a
// delay, or if limited at its rate. It is for queues that have more methods, as those with
// priorities.
func (q *ReasonsQueue[K]) Adding(key K, after time.Duration, limited bool) {
	q.why.Adding(key, after, limited)
}

// Taken is as Adding, for a key that another method than Get has returned.
func (q *ReasonsQueue[K]) Taken(key K) { q.why.Taken(key) }

// Failed notes the error of the run of key, which is not done, for its next run; nil if there is
// none.
func (q *ReasonsQueue[K]) Failed(key K, err error) { q.why.Failed(key, err) }

// A Requeue says why a key runs for which nothing has changed; 0 is of a change.
type Requeue uint8

// What a key runs for without a change.
const (
	RequeueAdded   Requeue = Requeue(why.Asked)   // Add, by something else than a handler of lw
	RequeueAfter   Requeue = Requeue(why.Delayed) // AddAfter
	RequeueLimited Requeue = Requeue(why.Limited) // AddRateLimited
	RequeueFailed  Requeue = Requeue(why.Failed)  // AddRateLimited, after an error that Failed got
	RequeueMore    Requeue = Requeue(why.More)    // more than 16 objects have changed, and these are the others
	RequeueUnknown Requeue = Requeue(why.Unknown) // more than 16,384 keys wait
)

// A Reason is one of those for which a key runs: what has become of an object since the key ran
// before, or a Requeue.
type Reason struct {
	Collection string       // the name of the informer or of the derived collection
	Object     lw.Key       // that has changed
	Type       lw.EventType // of the net change; 0: there is none, as after an Add and a Delete
	Cause      lw.Cause     // of the last event, as that of an lw.Delta
	Events     int          // of which the change is the net effect; of RequeueMore, the objects
	Requeue    Requeue      // 0: the fields above are set
	After      time.Duration
	Err        error         // of RequeueFailed
	Late       time.Duration // from the first event, or when the key was to be added, to the run

	why why.Reason
}

// A ReasonField is a field that differs between the old version and the new one.
type ReasonField struct {
	Path string // with dots, as "spec.containers[web].image"
	// Manager is who has written it, by the managed fields of the object; "" if it has none.
	Manager string
}

// Fields returns the fields that differ, up to eight, sorted by their paths. It compares the
// versions when it is called first. An update of which no old version is kept has none.
func (r Reason) Fields() []ReasonField {
	found, _ := r.why.Fields()
	var fields []ReasonField
	for _, f := range found {
		fields = append(fields, ReasonField{f.Path, f.Manager})
	}
	return fields
}

// String returns r in a line, as "Pod shop/cart updated (watch): status.phase by kubelet".
func (r Reason) String() string {
	var b strings.Builder
	switch r.Requeue {
	case 0:
		b.WriteString(strings.TrimLeft(r.Collection+" "+strings.TrimPrefix(r.Object.String(), "/"), " "))
		if r.Type == 0 {
			b.WriteString(": no net change")
		} else {
			b.WriteString(" " + r.Type.String())
		}
		fmt.Fprintf(&b, " (%v)", r.Cause)
		for i, f := range r.Fields() {
			b.WriteString([]string{": ", ", "}[min(i, 1)] + f.Path)
			if f.Manager != "" {
				b.WriteString(" by " + f.Manager)
			}
		}
		if _, more := r.why.Fields(); more {
			b.WriteString(", …")
		}
	case RequeueAfter:
		fmt.Fprintf(&b, "%s %v", r.Requeue, r.After)
	case RequeueFailed:
		fmt.Fprintf(&b, "%s: %v", r.Requeue, r.Err)
	case RequeueMore:
		fmt.Fprintf(&b, "%d %s", r.Events, r.Requeue)
	default:
		return r.Requeue.String()
	}
	return b.String()
}

// String returns what r is in a few words.
func (r Requeue) String() string { return why.Requeue(r).String() }

// A ReasonList is all reasons of a run. As an attribute of a log record, of slog or logr, it is one
// text for each, made only if the record is written.
type ReasonList []Reason

// LogValue implements slog.LogValuer.
func (l ReasonList) LogValue() slog.Value { return slog.AnyValue(l.texts()) }

// MarshalLog implements logr.Marshaler.
func (l ReasonList) MarshalLog() any { return l.texts() }

// String returns the reasons, separated by semicolons.
func (l ReasonList) String() string { return strings.Join(l.texts(), "; ") }

func (l ReasonList) texts() []string {
	texts := make([]string, len(l))
	for i, r := range l {
		texts[i] = r.String()
	}
	return texts
}
