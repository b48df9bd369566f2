package source_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The cases of testdata/NAME.txt are scripts of what a server answers and of what an informer makes
// of it. A case begins with "== name", and has a line for each of these:
//
//	list RV WIDGET…, list RV next=TOKEN WIDGET…, list !ERROR   the answer to a list
//	stream STEP… / STEP…, watch STEP… / STEP…   the answers to streamed lists, and to watches
//	mode stream, page 2, timeout 20s, budget 1s, backoff 1m, backoff 1m growing   options
//	after 1m            time passes; the first such line starts the informer
//	stops               the informer ends at once
//	asked A, B          the requests so far; "asks A, B" are the first of them
//	at-once A           each A came within five seconds of the request before it
//	called A, B         the calls of a handler; "calls A, B" are sorted: the objects of a list have no order
//	holds RV WIDGET…    the store
//	is WORD…            the status: see status
//	error TEXT          OnError was called with it; "errors N" is how often OnError was called
//	failures 1 2        what Options.Backoff was asked about
//
// Of several answers the last one is given again and again. A STEP is an event (+a1@9, ~a2@10,
// -a2@11, bookmark@20, end@20), a pause, an !ERROR, "ends", or "silent", which lasts until the
// request is over, as does a stream or a watch without one of these at its end. A line that begins
// with # is a comment. A case with a line "with" is run for each row behind it, whose cells are in
// the place of $1, $2 and so on.
func TestStreams(t *testing.T) { runScripts(t, "streams") }

// TestWatches is what follows a watch, by how it ends.
func TestWatches(t *testing.T) { runScripts(t, "watches") }

// TestLists is about pages, and about lists that say too little or too late.
func TestLists(t *testing.T) { runScripts(t, "lists") }

func runScripts(t *testing.T, name string) {
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range strings.Split("\n"+string(text), "\n== ")[1:] {
		name, body, _ := strings.Cut(c, "\n")
		body, rows, many := strings.Cut(body, "\nwith\n")
		for row := range strings.SplitSeq(rows, "\n") {
			if strings.HasPrefix(row, "#") || many && row == "" {
				continue
			}
			var cells []string
			for i, cell := range strings.Split(row, " | ") {
				cells = append(cells, fmt.Sprint("$", i+1), cell)
			}
			rig.Subtest(t, strings.TrimSpace(name+"/"+row), func(t *testing.T) {
				s := newScenario()
				for line := range strings.Lines(strings.NewReplacer(cells...).Replace(body)) {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
						s.line(t, line)
					}
				}
				s.checkOptions(t)
			})
		}
	}
}

// answers is a Source that takes its steps in their order. The rig.Script notes the requests, and
// answers lists.
type answers struct {
	rig.Script
	streams, watches [][]string
}

func (a *answers) Watch(ctx context.Context, opts metav1.ListOptions, yield func(widgetEvent) error) error {
	a.Mu.Lock()
	a.At, a.Options = append(a.At, time.Now()), append(a.Options, opts)
	of := &a.watches
	if opts.SendInitialEvents != nil {
		of = &a.streams
	}
	steps := []string{"silent"}
	if len(*of) > 0 {
		steps = (*of)[0]
	}
	if len(*of) > 1 {
		*of = (*of)[1:]
	}
	a.Mu.Unlock()
	for _, step := range steps {
		if step == "ends" {
			return nil
		}
		if step[0] == '!' {
			return scriptErrors[step[1:]]
		}
		if err := take(ctx, step, yield); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// take is a pause, or yields an event.
func take(ctx context.Context, step string, yield func(widgetEvent) error) error {
	what, rv, stamped := strings.Cut(step, "@")
	switch {
	case step == "silent":
		<-ctx.Done()
		return ctx.Err()
	case step[0] == '+':
		return yield(added(step[1:]))
	case step[0] == '~':
		return yield(modified(step[1:]))
	case step[0] == '-':
		return yield(deleted(step[1:]))
	case what == "bookmark":
		return yield(rig.Bookmark(rv))
	case what == "end" && stamped:
		return yield(rig.End(rv))
	}
	return rest(ctx, duration(step))
}

var scriptErrors = map[string]error{
	"badrequest": apierrors.NewBadRequest("no streams"),
	"busy":       apierrors.NewTooManyRequests("later", 1),
	"busylong":   apierrors.NewTooManyRequests("later", 60),
	"expired":    apierrors.NewResourceExpired("too old"),
	"forbidden":  apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no role")),
	//lint:ignore SA1019 Servers still answer with it.
	"gone":     apierrors.NewGone("gone"),
	"internal": apierrors.NewInternalError(errors.New("etcd")),
	"invalid":  apierrors.NewInvalid(schema.GroupKind{}, "", nil),
	"refused":  syscall.ECONNREFUSED,
	"reset":    syscall.ECONNRESET,
	"toolarge": tooLarge(),
	"unknown":  errors.New("what"),
	"unreadable": &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Reason: metav1.StatusReasonStoreReadError,
		Message: "corrupt"}},
}

// A scenario is one case that runs.
type scenario struct {
	src   *answers
	opts  *lw.Options
	inf   *lw.Informer[*rig.Widget] // nil before its start
	stop  func()
	calls rig.Calls
	errs  rig.Errors
	pacer rig.Pacer
}

func newScenario() *scenario {
	s := &scenario{src: &answers{}, opts: &lw.Options{}}
	s.opts.OnError = s.errs.Add
	return s
}

// line does what a line of a case says.
func (s *scenario) line(t *testing.T, line string) {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	if s.inf == nil && s.before(verb, rest) {
		return
	}
	list, words := strings.Split(rest, ", "), strings.Fields(rest)
	switch verb {
	case "after":
		s.start(t)
		rig.Sleep(duration(rest))
		synctest.Wait()
	case "stops":
		began := time.Now()
		s.stop()
		rig.Same(t, "time until Run ended", 0, time.Since(began))
	case "asked":
		rig.MustLog(t, &s.src.Script, list...)
	case "asks":
		mustBegin(t, s.src.Log(), list)
	case "at-once":
		at := s.src.Requests()
		for i, what := range s.src.Log() {
			if i > 0 && what == rest && at[i].Sub(at[i-1]) > 5*time.Second {
				t.Errorf("%s came %v after the request before it", what, at[i].Sub(at[i-1]))
			}
		}
	case "called":
		s.calls.MustBe(t, list...)
	case "calls":
		s.calls.Sorted(t, list...)
	case "holds":
		mustHold(t, s.inf.Store(), words[0], strings.Join(words[1:], " "))
	case "is":
		status(t, s.inf.Status(), words)
	case "error":
		s.errs.MustHave(t, rest)
	case "errors":
		mustCount(t, &s.errs, atoi(rest))
	case "failures":
		var want []int
		for _, w := range words {
			want = append(want, atoi(w))
		}
		s.pacer.MustBe(t, want...)
	default:
		t.Fatalf("no such line: %s", line)
	}
}

// before takes a line of answers and options, and reports whether it is one.
func (s *scenario) before(verb, rest string) bool {
	words := strings.Fields(rest)
	switch verb {
	case "list":
		s.src.Lists = append(s.src.Lists, reply(words))
	case "stream", "watch":
		of := map[string]*[][]string{"stream": &s.src.streams, "watch": &s.src.watches}[verb]
		for steps := range strings.SplitSeq(rest, " / ") {
			*of = append(*of, strings.Fields(steps))
		}
	case "mode":
		s.opts.List = lw.ListMode(rest)
	case "page":
		s.opts.PageSize = int64(atoi(rest))
	case "timeout":
		s.opts.WatchTimeout = duration(rest)
	case "budget":
		s.opts.SyncBudget = duration(rest)
	case "backoff":
		if s.opts.Backoff = s.pacer.Pause(duration(words[0])); len(words) > 1 {
			s.opts.Backoff = s.pacer.Grow(duration(words[0]))
		}
	default:
		return false
	}
	return true
}

// reply is an answer to a list: RV WIDGET…, RV next=TOKEN WIDGET… or !ERROR.
func reply(words []string) rig.Reply {
	if name, fails := strings.CutPrefix(words[0], "!"); fails {
		return rig.Reply{Err: scriptErrors[name]}
	}
	rv, widgets, more := words[0], words[1:], ""
	if len(widgets) > 0 {
		if token, ok := strings.CutPrefix(widgets[0], "next="); ok {
			more, widgets = token, widgets[1:]
		}
	}
	return page(rv, more, strings.Join(widgets, " "))
}

func (s *scenario) start(t *testing.T) {
	if s.inf != nil {
		return
	}
	s.inf = lw.NewInformer[*rig.Widget](s.src, s.opts)
	s.inf.AddHandler(s.calls.Handler())
	s.stop = sync.OnceFunc(rig.Begin(t, s.inf))
	t.Cleanup(s.stop)
}

// checkOptions checks what each streamed list was asked for with.
func (s *scenario) checkOptions(t *testing.T) {
	for _, o := range s.src.Options {
		if o.SendInitialEvents == nil {
			continue
		}
		want := metav1.ListOptions{
			AllowWatchBookmarks: true, SendInitialEvents: new(true), TimeoutSeconds: o.TimeoutSeconds,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}
		rig.Same(t, "options of a stream", want, o)
	}
}

// status checks words: a phase, a mode, synced, unsynced, heard (something came), well (no failure,
// and no error), and counts such as lists=2, watches<5 or at=20, which is the resource version.
func status(t *testing.T, st lw.Status, words []string) {
	t.Helper()
	counts := map[string]uint64{
		"failures": uint64(st.Failures), "epoch": uint64(st.Epoch), "watches": rig.Watches(st), "events": rig.Heard(st),
		"lists": st.Requests["list"].Started, "streams": st.Requests["stream"].Started, "probes": st.Requests["probe"].Started,
	}
	if st.ResourceVersion != "" {
		counts["at"] = uint64(atoi(st.ResourceVersion))
	}
	holds := map[string]bool{
		string(st.Phase): true, string(st.Mode): true, "synced": st.Synced, "unsynced": !st.Synced,
		"heard": !st.LastEvent.IsZero(), "well": st.Failures == 0 && st.Err == nil,
	}
	for _, w := range words {
		ok := holds[w]
		if i := strings.IndexAny(w, "=<>"); i > 0 {
			n, known := counts[w[:i]]
			want := uint64(atoi(w[i+1:]))
			ok = known && (w[i] == '=' && n == want || w[i] == '<' && n < want || w[i] == '>' && n > want)
		}
		if !ok {
			t.Errorf("not %s: %+v", w, st)
		}
	}
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}
