package simulate

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
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
	withoutFlag   = flag.String("simulate.without", "", "leave out these `kinds` of faults, with commas between them")
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
// A run that proves nothing fails, too: one in whose calm run the program writes nothing, one that
// makes no history, or one in which no fault happens. Run starts the test's own binary as workers, in
// which it does not return.
func Run(t *testing.T, w World) {
	t.Helper()
	s := begin(t, &w)
	r := s.find()
	s.done(r)
	switch {
	case r != nil:
		t.Fatal(s.text(r) + s.keep(r))
	case s.why != "":
		t.Fatal("simulate: " + s.why)
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
	return &search{
		t: t, world: w, began: time.Now(), quit: make(chan struct{}), halt: make(chan struct{}), next: map[int]int{}, pairs: map[string]bool{},
		result: Result{Test: t.Name(), Seed: *seedFlag, Faults: map[string]int{}},
	}
}

// find returns what fails; nil: nothing does.
func (s *search) find() *report {
	defer s.watchStop()()
	if r := s.repeat(); r != nil {
		return r
	}
	for s.world.History == "" && !s.halted() {
		s.run()
		if s.failed == nil || s.failed.Calm || s.failed.Plan == "" {
			break
		}
		first := s.failed
		r := s.shrunk(first.Plan)
		switch {
		case s.halted():
			return first
		case r == nil:
			s.t.Logf("simulate: the history %q has failed (%v), and not in a process of its own: the program keeps something in package variables, or does not do the same each time", first.Plan, first.Failure)
		case !slices.Contains(s.plans, r.Plan) && !slices.Contains(s.known, r.Failure.alarm()):
			return r
		}
		// It is known, and did not look so before it was shrunk, or it is no failure of the history.
		s.known = append(s.known, first.Failure.alarm())
		s.failed, s.quit = nil, make(chan struct{})
	}
	if s.failed == nil {
		s.why = s.vain()
	}
	return s.failed
}

// vain says why a search in which nothing fails proves nothing; "": it does.
func (s *search) vain() string {
	n, count := s.result.Histories, s.count()
	switch {
	case s.stopped != "":
		return fmt.Sprintf("stopped by %s after %d histories of %d, in which nothing else has failed", s.stopped, n, count)
	case n == 0:
		return "no history was made: let it run for longer"
	case len(s.result.Faults) > 0 || s.orders():
		return ""
	}
	return fmt.Sprintf("no fault has happened in %d histories: make more, or leave fewer kinds of faults out", n)
}

// orders reports whether the histories should have no faults.
func (s *search) orders() bool {
	p, err := parsePlan(s.world.History)
	return err == nil && len(p.faults) == 0
}

// count returns how many histories to make.
func (s *search) count() int {
	switch {
	case s.world.History != "":
		return 1
	case *forFlag > 0:
		return 1 << 30
	case *historiesFlag > 0:
		return *historiesFlag
	}
	return cmp.Or(s.world.Histories, 300)
}

// A search is one call of Run.
type search struct {
	t      *testing.T
	world  *World
	began  time.Time
	result Result
	known  []string // the alarms that do not end the run
	plans  []string // the histories that are kept with them
	why    string   // it proves nothing
	halt   chan struct{}

	mu       sync.Mutex
	quit     chan struct{}
	failed   *report
	next     map[int]int // the history with which a worker goes on
	again    int         // how many alarms were known
	pairs    map[string]bool
	reported time.Time
	stopped  string // by what
}

// watchStop stops the search when the test's time is nearly over, or at a signal, so that it says
// how far it came. The function that it returns ends that.
func (s *search) watchStop() func() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var late <-chan time.Time
	if at, ok := s.t.Deadline(); ok {
		left := time.Until(at)
		late = time.After(left - min(5*time.Second, left/5))
	}
	over := make(chan struct{})
	go func() {
		by := "the test's -timeout, which is nearly over"
		select {
		case <-late:
		case is := <-signals:
			by = is.String()
		case <-over:
			return
		}
		s.mu.Lock()
		s.stopped = by
		s.mu.Unlock()
		close(s.halt)
		s.end()
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

func (s *search) halted() bool {
	select {
	case <-s.halt:
		return true
	default:
		return false
	}
}

// run searches with all workers.
func (s *search) run() {
	s.t.Helper()
	if *forFlag > 0 {
		timer := time.AfterFunc(*forFlag-time.Since(s.began), s.end)
		defer timer.Stop()
	}
	var workers sync.WaitGroup
	for i := range *workersFlag {
		workers.Go(func() { s.worker(i, s.count()) })
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
	for {
		s.mu.Lock()
		from, ok := s.next[i]
		if !ok {
			from = i
		}
		quit := s.quit
		s.mu.Unlock()
		if from >= count || done(quit) {
			return
		}
		var last report
		of := task{Seed: *seedFlag, From: from, Step: step, Count: min(count, from+batch*step), Known: s.known}
		lines, err := spawn(s.t, of, quit, func(r report) {
			if last = r; !r.Begin && !r.Done {
				s.add(r, i, step)
			}
		})
		if done(quit) {
			return
		}
		if err != nil {
			last.Failure, last.Story = &failure{"panic", err.Error()}, lines
			s.add(last, i, step)
			return
		}
		s.mu.Lock()
		stuck := s.next[i] <= from
		s.mu.Unlock()
		if stuck {
			return
		}
	}
}

func done(quit <-chan struct{}) bool {
	select {
	case <-quit:
		return true
	default:
		return false
	}
}

func (s *search) add(r report, i, step int) {
	s.mu.Lock()
	if !r.Calm {
		s.result.Histories++
		s.next[i] = r.N + step
	}
	for kind, n := range r.Faults {
		s.result.Faults[kind] += n
	}
	for _, p := range r.Pairs {
		s.pairs[p] = true
	}
	if r.Known {
		s.again++
	} else if r.Failure != nil && s.failed == nil {
		s.failed = &r
	}
	if time.Since(s.reported) > 5*time.Second && terminal() {
		s.reported = time.Now()
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

// shrunk runs a history in a fresh worker, and returns the shortest that fails alike; nil: it does
// not fail there.
func (s *search) shrunk(text string) *report { return s.once(text, false) }

// once is shrunk, which with true only runs it.
func (s *search) once(text string, once bool) *report {
	var last report
	var failed *report
	lines, err := spawn(s.t, task{Plan: text, Once: once}, s.halt, func(r report) {
		if last = r; r.Failure != nil {
			failed = &r
		}
	})
	if s.halted() {
		return nil
	}
	if err != nil && failed == nil {
		last.Failure, last.Plan, last.Story = &failure{"panic", err.Error()}, text, lines
		failed = &last
	}
	if s.world.History == "" {
		return failed
	}
	s.result.Histories++
	for kind, n := range last.Faults {
		s.result.Faults[kind] += n
	}
	return failed
}

// text says what fails.
func (s *search) text(r *report) string {
	if r.Calm {
		return fmt.Sprintf("simulate: %s\nThis is the calm run: no fault, and everything in the order in which it came.\n\n%s\n%s\n", r.Failure.Oracle, story(r.Story), r.Failure.Text)
	}
	return fmt.Sprintf("simulate: %s\nhistory %q, after %d histories and %v; %d of %d replays do the same\n\n%s\n%s\n\n", r.Failure.Oracle, r.Plan, s.result.Histories,
		time.Since(s.began).Round(100*time.Millisecond), r.Exact, r.Replays, story(r.Story), r.Failure.Text)
}

// done says how much was tried.
func (s *search) done(r *report) {
	s.t.Helper()
	s.result.Pairs = keys(s.pairs)
	if r != nil {
		s.result.Oracle, s.result.History, s.result.Exact = r.Failure.Oracle, r.Plan, fmt.Sprintf("%d of %d", r.Exact, r.Replays)
	}
	s.result.Seconds = time.Since(s.began).Seconds()
	known := ""
	if s.again > 0 {
		known = fmt.Sprintf("; %d alarms that are known", s.again)
	}
	s.t.Logf("simulate: %d histories of seed %d in %.1fs: %s; %d pairs of what was held and what went wrong%s", s.result.Histories, *seedFlag,
		s.result.Seconds, counts(s.result.Faults), len(s.result.Pairs), known)
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
