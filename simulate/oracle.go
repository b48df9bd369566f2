package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-lw/lw/lwtest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// A calmRun is what the calm run has shown, with which every history is compared.
type calmRun struct {
	Writes, Changes int
	Watched, Actors []string
	Kinds           []string // of faults
	Stale           []string // the resources of which a start may read an older state
	Children        map[string]int
	Restart         []string
	Error           string          // one that was logged at rest
	Varies          map[string]bool // the fields that differ between two calm runs
	end             State
	Foreign         map[string]bool // by plural and oracle: whether a foreign write alone offends it
}

// The oracles that another manager's write alone may offend.
const (
	anotherEnd = "another end"
	mends      = "a restart mends something"
)

// state reads all objects of the server, except those that only describe the program.
func (h *history) state() State {
	var s State
	seen := map[string]bool{}
	for _, r := range h.world.Resources {
		if unheld[r.Plural] || seen[r.Plural] {
			continue
		}
		seen[r.Plural] = true
		for obj := range lwtest.Objects[*unstructured.Unstructured](h.server, r.Plural).All() {
			s.Objects = append(s.Objects, obj)
			h.names[obj.GetKind()+" "+obj.GetName()] = true
		}
	}
	return s
}

// print differs between two states of a server.
func (s State) print() string {
	newest := 0
	for _, obj := range s.Objects {
		n, _ := strconv.Atoi(obj.GetResourceVersion()) // the server's are numbers
		newest = max(newest, n)
	}
	return fmt.Sprint(len(s.Objects), newest)
}

// look notices what has changed on the server.
func (h *history) look() {
	v := h.server.ResourceVersion()
	if v == h.version {
		return
	}
	h.version = v
	s := h.state()
	for _, c := range changesOf(h.seen, s) {
		c.line = len(h.story)
		h.recent = append(h.recent, c)
	}
	h.recent, h.seen = h.recent[max(0, len(h.recent)-remembered):], s
	held := s.print()
	if held == h.held {
		return // only a lease or an event has changed
	}
	h.held = held
	h.changes++
	h.changed = time.Now()
	if h.calm == nil || h.made != "" {
		h.twice(s)
	}
	if h.world.Always != nil {
		if err := h.world.Always(s); err != nil {
			h.fail("Always", "%v", err)
		}
	}
}

// twice counts the children of each owner, those aside that are being deleted. The program must not
// make one too many while it can know of the others: before it asked for this one, this start of it
// had seen them, or had made them and got the answer. While another actor is away there may be more
// children than in the calm run, where that ends them.
func (h *history) twice(s State) {
	if len(h.absent) > 1 || len(h.absent) == 1 && !h.absent[garbage] {
		return
	}
	count, name, made := map[string]int{}, map[string]string{}, ""
	for _, obj := range s.Objects {
		uid := string(obj.GetUID())
		if obj.GetDeletionTimestamp() != nil || h.calm != nil && (h.known[uid] == 0 || h.known[uid] >= h.asked) && uid != h.made {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(obj)
		if owner == nil {
			continue
		}
		id := string(owner.UID) + obj.GetKind()
		count[id]++
		name[id] = fmt.Sprintf("%s of %s %s/%s", obj.GetKind(), owner.Kind, obj.GetNamespace(), bare(owner.Name))
		if uid == h.made && !h.world.more(obj.GetKind()) {
			made = id
		}
	}
	if h.calm == nil {
		for id, n := range count {
			h.children[name[id]] = max(h.children[name[id]], n)
		}
		return
	}
	if what := name[made]; count[made] > max(1, h.calm.Children[what]) {
		h.fail("twice", "there are %d %s at a time, and the calm run never has more than %d; the program could have known of each", count[made], what, max(1, h.calm.Children[what]))
	}
}

// orphans fails if an object stays whose owner is gone.
func (h *history) orphans() {
	s := h.state()
	there, kinds := map[string]bool{}, map[string]bool{}
	for _, obj := range s.Objects {
		there[string(obj.GetUID())] = true
	}
	for _, r := range h.world.Resources {
		kinds[r.Kind] = true
	}
	for _, obj := range s.Objects {
		owners := obj.GetOwnerReferences()
		gone := slices.IndexFunc(owners, func(o ownerRef) bool { return kinds[o.Kind] && !there[string(o.UID)] })
		if gone >= 0 && len(owners) == 1 {
			h.fail("orphan", "%s %s/%s stays at rest, and its owner %s %s is gone", obj.GetKind(), obj.GetNamespace(), obj.GetName(), owners[gone].Kind, owners[gone].Name)
		}
	}
}

// compare compares the end with that of the calm run.
func (h *history) compare(end State) {
	if h.calm == nil {
		return
	}
	diff := h.world.difference(h.calm.end, end, h.calm.Varies)
	if diff != "" && (h.world.Ends == nil || !h.world.Ends(h.calm.end, end)) {
		h.fail(anotherEnd, "the end differs from that of the calm run (- calm, + here):\n%s", diff)
	}
}

var caught struct {
	sync.Mutex
	panics []string
	start  int       // which start of a program runs
	error  string    // the last one that it has logged
	at     time.Time // when
	kind   string    // the last one of a kind that the server lacks
	moment time.Time // of the last line of a log
	lines  int       // at that moment
}

// An errorLog notes the last error that is logged, and drops all else. What a program logs that has
// crashed says nothing of the one that runs.
type errorLog struct{ start int }

func (errorLog) Init(logr.RuntimeInfo)            {}
func (errorLog) Info(int, string, ...any)         {}
func (l errorLog) WithValues(...any) logr.LogSink { return l }
func (l errorLog) WithName(string) logr.LogSink   { return l }

// spins is how many lines a program logs at one moment until it is thought to spin.
const spins = 20_000

// Enabled lets a moment pass if the program spins. Timers are never late in a bubble: a program that
// waits until something is due finds that it is due in no time, and no time passes while it runs.
func (errorLog) Enabled(int) bool {
	caught.Lock()
	now := time.Now()
	if !now.Equal(caught.moment) {
		caught.moment, caught.lines = now, 0
	}
	caught.lines++
	late := caught.lines%spins == 0
	caught.Unlock()
	if late {
		time.Sleep(time.Millisecond)
	}
	return false
}

func (l errorLog) Error(err error, text string, _ ...any) {
	caught.Lock()
	defer caught.Unlock()
	if l.start == caught.start && !errors.Is(err, errDown) {
		caught.error, caught.at = fmt.Sprintf("%s: %v", text, err), time.Now()
		if lacksKind(err) {
			caught.kind = caught.error
		}
	}
}

// An anyLog is the errorLog of the start that runs: controller-runtime's log is set once.
type anyLog struct{ errorLog }

func (l anyLog) WithValues(...any) logr.LogSink { return l }
func (l anyLog) WithName(string) logr.LogSink   { return l }

func (anyLog) Error(err error, text string, _ ...any) {
	caught.Lock()
	start := caught.start
	caught.Unlock()
	errorLog{start}.Error(err, text)
}

// newLog forgets what was logged before, and returns the log of the start of a program. Libraries
// that have no other one use it.
func newLog() logr.Logger {
	caught.Lock()
	caught.start++
	caught.error, caught.kind = "", ""
	l := logr.New(errorLog{caught.start})
	caught.Unlock()
	klog.SetLogger(l)
	return l
}

// logged returns the last error that the program has logged within d, or with 0 at any time; "":
// there was none.
func (h *history) logged(d time.Duration) string {
	caught.Lock()
	defer caught.Unlock()
	if d > 0 && time.Since(caught.at) > d {
		return ""
	}
	return caught.error
}

// lacksKind reports whether an error is of a kind that the server lacks, however it is wrapped.
func lacksKind(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "no matches for ") || strings.Contains(err.Error(), "the server could not find the requested resource"))
}

// lacked returns the last error of a kind that the server lacks, among err and what was logged.
func lacked(err error) string {
	if lacksKind(err) {
		return err.Error()
	}
	caught.Lock()
	defer caught.Unlock()
	return caught.kind
}

// notePanic notes a panic that a goroutine of a history has recovered, in that goroutine.
func notePanic(v any) {
	stack := make([]byte, 16<<10)
	stack = stack[:runtime.Stack(stack, false)]
	caught.Lock()
	defer caught.Unlock()
	caught.panics = append(caught.panics, fmt.Sprintf("%v\n%s", v, stack))
}

// quiet drops the logs of the program's libraries, but for errors, and notes the panics that they
// recover.
func quiet() {
	newLog()
	verbose := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(verbose)
	_ = verbose.Set("v", "4") // so that klog asks errorLog.Enabled
	ctrllog.SetLogger(logr.New(anyLog{}))
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) { notePanic(r) }}
	// The handlers that there are log, and pause by the clock of the process.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, text string, _ ...any) {
		anyLog{}.Error(err, text)
	}}
}

func takePanics() []string {
	caught.Lock()
	defer caught.Unlock()
	out := caught.panics
	caught.panics = nil
	return out
}

// stacks returns the goroutines of bubbles.
func stacks() string {
	b := make([]byte, 1<<20)
	b = b[:runtime.Stack(b, true)]
	var out []string
	for one := range strings.SplitSeq(string(b), "\n\n") {
		if strings.Contains(one[:strings.IndexByte(one+"\n", '\n')], "synctest bubble") {
			out = append(out, one)
		}
	}
	return strings.Join(out, "\n\n")
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
