package simulate

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-lw/lw/controllerruntime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var (
	seedFlag      = flag.Uint64("simulate.seed", 1, "the `seed` of the histories of package simulate")
	forFlag       = flag.Duration("simulate.for", 0, "search for so long, rather than for a number of histories")
	historiesFlag = flag.Int("simulate.histories", 0, "make `n` histories of each World")
	workersFlag   = flag.Int("simulate.workers", runtime.NumCPU(), "run `n` processes at a time")
	cacheFlag     = flag.String("simulate.cache", "", "the cache that NewCache makes: lw, or else controller-runtime's own")
	jsonFlag      = flag.String("simulate.json", "", "add the results to a `file`, a line of JSON for each World")
)

// NewCache is for ctrl.Options.NewCache: it makes the cache that -simulate.cache says. What holds
// on one cache and fails on the other depends on more than caches promise.
func NewCache(c *rest.Config, opts cache.Options) (cache.Cache, error) {
	switch *cacheFlag {
	case "lw":
		return controllerruntime.NewCache(c, opts)
	case "":
		return cache.New(c, opts)
	}
	return nil, fmt.Errorf("simulate: there is no cache %q: -simulate.cache is lw or empty", *cacheFlag)
}

// Result is what Run writes with -simulate.json, a line for each World.
type Result struct {
	Test      string
	Seed      uint64
	Histories int
	Seconds   float64
	Faults    map[string]int // how often each kind has happened
	Pairs     []string       // which kind was held while which write met which fault
	Oracle    string         `json:",omitempty"` // what failed
	History   string         `json:",omitempty"` // the shortest history that shows it
	Exact     string         `json:",omitempty"` // how many of its replays did the same
}

// Run runs histories of a World until one fails, or all are done: first those in
// testdata/simulate/<test>, then the ones of the seed. The flags of the test say how many:
//
//	go test -run TestController -simulate.for 10m -simulate.seed 7
//
// Run starts the test's own binary as workers, in which it does not return.
func Run(t *testing.T, w World) {
	t.Helper()
	s := begin(t, &w)
	r := s.find()
	s.done(r)
	if r != nil {
		t.Fatal(s.text(r) + s.keep(r))
	}
}

// begin returns the search for a World. It does not return in a worker.
func begin(t *testing.T, w *World) *search {
	t.Helper()
	if w.Start == nil {
		t.Fatal("simulate: World.Start is nil: it runs the program")
	}
	if err := w.prepare(); err != nil {
		t.Fatal(err)
	}
	*workersFlag = max(1, *workersFlag)
	if os.Getenv(workerEnv) != "" {
		work(t, w)
	}
	return &search{t: t, world: w, began: time.Now(), quit: make(chan struct{}), pairs: map[string]bool{}, result: Result{Test: t.Name(), Seed: *seedFlag, Faults: map[string]int{}}}
}

// find returns what fails; nil: nothing does.
func (s *search) find() *report {
	for _, text := range s.corpus() {
		if r := s.shrunk(text); r != nil {
			return r
		}
	}
	if s.world.History != "" {
		return nil
	}
	s.run()
	if s.failed == nil || s.failed.Calm || s.failed.Plan == "" {
		return s.failed
	}
	r := s.shrunk(s.failed.Plan)
	if r == nil {
		s.t.Logf("simulate: the history %q has failed (%v), and not in a process of its own: the program keeps something in package variables, or does not do the same each time", s.failed.Plan, s.failed.Failure)
	}
	return r
}

// A search is one call of Run.
type search struct {
	t      *testing.T
	world  *World
	began  time.Time
	result Result

	mu     sync.Mutex
	quit   chan struct{}
	failed *report
	pairs  map[string]bool
	told   time.Time
}

func (s *search) dir() string { return filepath.Join("testdata", "simulate", s.t.Name()) }

// corpus returns the histories to repeat.
func (s *search) corpus() []string {
	if s.world.History != "" {
		return []string{s.world.History}
	}
	files, _ := filepath.Glob(filepath.Join(s.dir(), "*")) // the pattern is well formed
	var out []string
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			out = append(out, strings.TrimSpace(string(b)))
		}
	}
	return out
}

// run searches with all workers.
func (s *search) run() {
	s.t.Helper()
	count := s.world.Histories
	if count <= 0 {
		count = 300
	}
	if *historiesFlag > 0 {
		count = *historiesFlag
	}
	if *forFlag > 0 {
		count = 1 << 30
		timer := time.AfterFunc(*forFlag, s.end)
		defer timer.Stop()
	}
	var workers sync.WaitGroup
	for i := range *workersFlag {
		workers.Go(func() { s.worker(i, count) })
	}
	workers.Wait()
}

func (s *search) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.quit:
	default:
		close(s.quit)
	}
}

// batch is how many histories a worker makes before another one takes its place: what a program
// keeps in package variables must not grow, nor its leftover goroutines.
const batch = 400

// worker makes every history whose number is i, modulo the number of workers.
func (s *search) worker(i, count int) {
	step := *workersFlag
	for from := i; from < count; from += batch * step {
		select {
		case <-s.quit:
			return
		default:
		}
		var last report
		err := spawn(s.t, task{Seed: *seedFlag, From: from, Step: step, Count: min(count, from+batch*step)}, s.quit, func(r report) {
			if last = r; !r.Begin && !r.Done {
				s.add(r)
			}
		})
		select {
		case <-s.quit:
			return
		default:
		}
		if err != nil {
			last.Failure = &failure{"panic", err.Error()}
			s.add(last)
			return
		}
	}
}

func (s *search) add(r report) {
	s.mu.Lock()
	if !r.Calm {
		s.result.Histories++
	}
	for kind, n := range r.Faults {
		s.result.Faults[kind] += n
	}
	for _, p := range r.Pairs {
		s.pairs[p] = true
	}
	if r.Failure != nil && s.failed == nil {
		s.failed = &r
	}
	if time.Since(s.told) > 5*time.Second && terminal() {
		s.told = time.Now()
		fmt.Fprintf(os.Stderr, "simulate: %s: %d histories in %v, %d pairs of what was held and what went wrong, %s\n",
			s.t.Name(), s.result.Histories, time.Since(s.began).Round(time.Second), len(s.pairs), counts(s.result.Faults))
	}
	failed := s.failed != nil
	s.mu.Unlock()
	if failed {
		s.end()
	}
}

func terminal() bool {
	info, err := os.Stderr.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}

// shrunk runs a history in a fresh worker, and returns the shortest that fails alike; nil: it does
// not fail there.
func (s *search) shrunk(text string) *report {
	var last report
	var failed *report
	err := spawn(s.t, task{Plan: text}, make(chan struct{}), func(r report) {
		if last = r; r.Failure != nil {
			failed = &r
		}
	})
	if err != nil && failed == nil {
		last.Failure, last.Plan = &failure{"panic", err.Error()}, text
		failed = &last
	}
	return failed
}

// text tells what fails.
func (s *search) text(r *report) string {
	if r.Calm {
		return fmt.Sprintf("simulate: %s\nThis is the calm run: no fault, and everything in the order in which it came.\n\n%s\n%s\n", r.Failure.Oracle, story(r.Told), r.Failure.Text)
	}
	return fmt.Sprintf("simulate: %s\nhistory %q, after %d histories and %v; %d of %d replays do the same\n\n%s\n%s\n\n", r.Failure.Oracle, r.Plan, s.result.Histories,
		time.Since(s.began).Round(100*time.Millisecond), r.Exact, r.Replays, story(r.Told), r.Failure.Text)
}

// keep keeps a history, and says how to run it again.
func (s *search) keep(r *report) string {
	text := r.Plan
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	file := filepath.Join(s.dir(), fmt.Sprintf("%x", sum[:6]))
	kept := "kept in " + file + ", which each run of the test repeats first"
	if err := os.MkdirAll(s.dir(), 0o777); err != nil {
		kept = err.Error()
	} else if err := os.WriteFile(file, []byte(text+"\n"), 0o666); err != nil {
		kept = err.Error()
	}
	return fmt.Sprintf(`%s; it alone is, with the World of %s as w:

	func TestReplay(t *testing.T) {
		w.History = %q
		simulate.Run(t, w)
	}
`, kept, s.t.Name(), text)
}

// done says how much was tried.
func (s *search) done(r *report) {
	s.t.Helper()
	s.result.Pairs = keys(s.pairs)
	if r != nil {
		s.result.Oracle, s.result.History, s.result.Exact = r.Failure.Oracle, r.Plan, fmt.Sprintf("%d of %d", r.Exact, r.Replays)
	}
	s.result.Seconds = time.Since(s.began).Seconds()
	s.t.Logf("simulate: %d histories of seed %d in %.1fs: %s; %d pairs of what was held and what went wrong", s.result.Histories, *seedFlag,
		s.result.Seconds, counts(s.result.Faults), len(s.result.Pairs))
	if *jsonFlag == "" {
		return
	}
	f, err := os.OpenFile(*jsonFlag, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		s.t.Error(err)
		return
	}
	defer f.Close()
	if err := json.NewEncoder(f).Encode(s.result); err != nil {
		s.t.Error(err)
	}
}
