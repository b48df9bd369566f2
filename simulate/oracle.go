package simulate

import (
	"context"
	"encoding/json"
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
	Children        map[string]int
	Restart         []string
	Error           string          // one that was logged at rest
	Varies          map[string]bool // the fields that differ between two calm runs
	end             State
	Foreign         map[string]bool // by plural and oracle: whether a foreign write alone offends it
}

const anotherEnd = "another end"

// state reads all objects of the server, those aside that only tell of the program.
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
// had seen them, or had made them and was told so.
func (h *history) twice(s State) {
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
		name[id] = fmt.Sprintf("%s of %s %s/%s", obj.GetKind(), owner.Kind, obj.GetNamespace(), stem(owner.Name))
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

// loop says what does not come to rest.
func (h *history) loop(steps int) string {
	var last []string
	for i := len(h.told) - 1; i >= 0 && len(last) < 12; i-- {
		last = append(last, h.told[i])
	}
	slices.Reverse(last)
	return fmt.Sprintf("after %d steps and %d changes of the server the program still works; the last steps:\n  %s", steps, h.changes, strings.Join(last, "\n  "))
}

var caught struct {
	sync.Mutex
	panics []string
	error  string    // the last one that was logged
	at     time.Time // when
}

// An errorLog notes the last error that is logged, and drops all else.
type errorLog struct{}

func (errorLog) Init(logr.RuntimeInfo)            {}
func (errorLog) Enabled(int) bool                 { return false }
func (errorLog) Info(int, string, ...any)         {}
func (l errorLog) WithValues(...any) logr.LogSink { return l }
func (l errorLog) WithName(string) logr.LogSink   { return l }

func (errorLog) Error(err error, text string, _ ...any) {
	caught.Lock()
	defer caught.Unlock()
	caught.error, caught.at = fmt.Sprintf("%s: %v", text, err), time.Now()
}

// lastError returns the last error that was logged within d; "": there was none.
func lastError(d time.Duration) string {
	caught.Lock()
	defer caught.Unlock()
	if time.Since(caught.at) > d {
		caught.error = ""
	}
	return caught.error
}

// forgetErrors forgets those of the history before.
func forgetErrors() {
	caught.Lock()
	defer caught.Unlock()
	caught.error = ""
}

// quiet drops the logs of the program's libraries, but for errors, and notes the panics that they
// recover.
func quiet() {
	klog.SetLogger(logr.New(errorLog{}))
	ctrllog.SetLogger(logr.New(errorLog{}))
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) {
		stack := make([]byte, 16<<10)
		stack = stack[:runtime.Stack(stack, false)]
		caught.Lock()
		defer caught.Unlock()
		caught.panics = append(caught.panics, fmt.Sprintf("%v\n%s", r, stack))
	}}
	// The handlers that there are log, and pause by the clock of the process.
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, text string, _ ...any) {
		errorLog{}.Error(err, text)
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
