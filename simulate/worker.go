package simulate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-lw/lw/internal/apiserver"
)

// Histories run in workers: processes of the test's own binary, of which each makes many histories,
// one after the other, on one core. A history that hangs or panics ends its worker alone. What
// fails is repeated in a fresh worker, so what package variables keep from one history is no
// failure.

// workerEnv has the task of a worker, and makes the process one.
const workerEnv = "LW_SIMULATE_WORKER"

// debugs keep the runtime from ending a goroutine's turn by a signal, and let a history seed
// math/rand.
const debugs = "asyncpreemptoff=1,randseednop=0"

// mark begins the lines of a worker that are for its parent.
const mark = "@simulate "

// hangs is how long a bubble may take, by the clock of the machine.
var hangs = 60 * time.Second

// A task is what a worker does.
type task struct {
	Seed              uint64
	From, Step, Count int      // the histories
	Plan              string   // if it is set: this one is run and shrunk
	Once              bool     // or only run
	Known             []string // the alarms that end nothing, as alarm has them
}

// A report is a line of a worker.
type report struct {
	N       int
	Plan    string
	Begin   bool // it is about to run
	Calm    bool // it is the calm run
	Done    bool // the worker has no more to do
	Failure *failure
	Known   bool   // the failure is one that ends nothing
	Line    string // of the story of what runs
	Story   []string
	Digest  uint64
	Exact   int // how many of the replays did the same
	Replays int
	Faults  map[string]int
	Pairs   []string
}

// say writes a report in one line, whatever the program has written before.
func say(r report) {
	fmt.Fprintf(os.Stdout, "\n%s%s\n", mark, encode(r))
}

// A worker makes histories of one world.
type worker struct {
	t     *testing.T
	world *World
	calm  *calmRun
	leaks bool // goroutines are left of a calm run
	live  bool // the next history prints its story as it happens
}

// work does the task of the environment, and ends the process.
func work(t *testing.T, w *World) {
	debug.SetGCPercent(400)
	apiserver.ShareDecoded.Store(true)
	noFinalizers()
	quiet()
	go func() { // a parent that is gone needs no worker
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var of task
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &of); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(2)
	}
	k := &worker{t: t, world: w}
	if k.learn() {
		if of.Plan != "" {
			k.shrink(of)
		} else {
			k.search(of)
		}
	}
	say(report{Done: true})
	os.Exit(0)
}

// noFinalizers keeps finalizers and cleanups from running: they run outside the bubble whose
// channels they use, which ends the process. All of a kind wait for one that never returns.
func noFinalizers() {
	begun := make(chan bool)
	forever := func(*[64]byte) { begun <- true; select {} }
	runtime.SetFinalizer(new([64]byte), forever)
	runtime.AddCleanup(new([64]byte), forever, nil)
	runtime.GC()
	<-begun
	<-begun
}

// learn makes the calm run, twice: what differs between two of them says nothing.
func (k *worker) learn() bool {
	var runs [2]outcome
	for i := range runs {
		say(report{Begin: true, Calm: true})
		k.live = true
		runs[i] = k.bubble(plan{}, time.Duration(i)*time.Hour)
		k.leaks = k.leaks || runs[i].Leaks
		if f := runs[i].Failure; f != nil {
			say(report{Calm: true, Failure: f, Story: runs[i].Story})
			return false
		}
	}
	a, actors := runs[0], []string{garbage}
	for _, actor := range k.world.Actors {
		actors = append(actors, actor.Name)
	}
	k.calm = &calmRun{
		Writes: a.Writes, Changes: a.Changes, Watched: a.Watched, Actors: actors, Children: a.Children, Restart: a.Restart, Error: a.Error,
		Varies: k.world.varying(a.end, runs[1].end), end: a.end, Foreign: map[string]bool{}, Kinds: k.world.kinds, Stale: a.Stale,
	}
	return true
}

func (k *worker) search(of task) {
	for n := of.From; n < of.Count; n += of.Step {
		p := planOf(of.Seed, n, k.calm)
		say(report{N: n, Plan: p.String(), Begin: true})
		out := k.history(p)
		known := out.Failure != nil && slices.Contains(of.Known, out.Failure.alarm())
		say(report{N: n, Plan: p.String(), Failure: out.Failure, Known: known, Faults: out.Faults, Pairs: out.Pairs})
		if out.Failure != nil && !known {
			return
		}
	}
}

// A history begins in the middle of a second. The times of objects have whole seconds, and hardly
// any object of a cluster is exactly that old: kube-controller-manager divides by the age of a Pod.
const fraction = 500 * time.Millisecond

// bubble makes one history, which begins after some time.
func (k *worker) bubble(p plan, after time.Duration) outcome {
	done, never := make(chan outcome, 1), make(chan bool)
	live := k.live
	k.live = false
	go func() {
		synctest.Test(k.t, func(*testing.T) {
			time.Sleep(after + fraction)
			h := &history{world: k.world, plan: p, calm: k.calm, live: live}
			out := h.run()
			out.Changes = h.changes
			left := ""
			if !k.leaks {
				left = leftOver()
			}
			if left != "" && out.Failure == nil && k.calm != nil {
				out.Failure = &failure{"goroutines", "the program has ended, and this goroutine has not:\n" + left}
			}
			out.Leaks = left != ""
			stay := out.Leaks || k.leaks
			done <- out
			if stay {
				<-never // the clock of the bubble stands still from here on
			}
		})
	}()
	select {
	case out := <-done:
		return out
	case <-time.After(hangs):
		say(report{Plan: p.String(), Calm: k.calm == nil, Failure: &failure{
			"does not settle", "for a minute the program has not come to rest, since a goroutine neither ends nor waits for another one of the program: it spins, waits for a mutex or for the network. " +
				"Wait for the caches before the work begins, and hold no mutex while a request is made. No time passes while a goroutine runs, and a timer is never late: " +
				"a program that waits until something is due, and adds itself again after what is left, which is 0 then, spins. What is due now is due: let it wait only if more than 0 is left.\n" + restless(),
		}})
		os.Exit(3)
		panic("not reached")
	}
}

var bubbleOf = regexp.MustCompile(`synctest bubble \d+`)

// leftOver returns the stack of a goroutine of this bubble that has not ended; "": there is none.
func leftOver() string {
	own := make([]byte, 200)
	own = own[:runtime.Stack(own, false)]
	bubble := bubbleOf.FindString(string(own))
	for range 3 {
		synctest.Wait()
		var left []string
		for one := range strings.SplitSeq(stacks(), "\n\n") {
			head, rest, _ := strings.Cut(one, "\n")
			if bubbleOf.FindString(head) == bubble && !strings.Contains(rest, "internal/synctest.Run") && !strings.Contains(rest, "simulate.leftOver") {
				left = append(left, one)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Sleep(time.Minute); len(left) > 0 {
			own = []byte(left[0])
		}
	}
	return string(own)
}

// restless returns the goroutines of bubbles that keep their bubble from resting. Those of former
// histories of a program that leaks stay, and keep nothing.
func restless() string {
	var out []string
	for one := range strings.SplitSeq(stacks(), "\n\n") {
		head, rest, _ := strings.Cut(one, "\n")
		former := strings.HasPrefix(rest, "github.com/go-lw/lw/simulate.(*worker).bubble.") // it waits for ever
		rests := strings.Contains(head, "durable") || strings.Contains(rest, "internal/synctest.Run") ||
			strings.Contains(rest, "synctest.Wait")
		if !former && !rests && len(out) < 4 {
			out = append(out, one)
		}
	}
	return strings.Join(out, "\n\n")
}

// digest says whether two histories did the same.
func digest(lines []string, names *strings.Replacer) uint64 {
	h := fnv.New64a()
	for _, line := range lines {
		_, _ = io.WriteString(h, names.Replace(bare(line))+"\n")
	}
	return h.Sum64()
}

// spawn starts a worker, and calls each with what it reports. It returns when the worker has ended:
// with an error if it did not end as it should, and what the story was until then.
func spawn(t *testing.T, of task, quit <-chan struct{}, each func(report)) (story []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"-test.run=^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$", "-test.timeout=0", "-test.count=1", "-simulate.cache=" + *cacheFlag, "-simulate.without=" + *withoutFlag}
	for _, arg := range os.Args[1:] {
		if !strings.HasPrefix(arg, "-test.") && !strings.HasPrefix(arg, "-simulate.") {
			args = append(args, arg)
		}
	}
	cmd := exec.Command(self, args...)
	// A worker exits in the middle of a test. What that has in its TempDir goes with this one's.
	cmd.Env = append(os.Environ(), workerEnv+"="+string(encode(of)), "GOMAXPROCS=1", "GODEBUG="+debugs, "TMPDIR="+t.TempDir())
	stdin, err := cmd.StdinPipe() // its end ends the worker
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var errors tail
	cmd.Stderr = &errors
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-quit:
			_ = cmd.Process.Kill()
		case <-ended:
		}
	}()
	story, done := listen(stdout, &errors, each)
	_ = stdin.Close()
	err = cmd.Wait()
	if done {
		return story, nil
	}
	return story, fmt.Errorf("the worker has ended (%v):\n%s", err, errors.b)
}

// listen calls each with what a worker reports until its output ends. It returns the story so far,
// and whether the worker said that it is done. Panics and failed tests go to errors.
func listen(stdout io.Reader, errors *tail, each func(report)) (story []string, done bool) {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if text, is := strings.CutPrefix(line, mark); is {
			var r report
			switch {
			case json.Unmarshal([]byte(text), &r) != nil:
			case r.Line != "":
				story = append(story, r.Line)
			default:
				if r.Begin {
					story = nil
				}
				if r.Failure != nil && r.Story == nil {
					r.Story = story
				}
				done = done || r.Done || r.Failure != nil && !r.Known
				each(r)
			}
		} else if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "--- FAIL") {
			errors.Write([]byte(line))
		}
		if err != nil {
			return story, done
		}
	}
}

// A tail keeps the beginning of what a worker writes to stderr.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	if room := 6000 - len(t.b); room > 0 {
		t.b = append(t.b, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
