package source_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
)

// logbook is a logger whose lines can be looked at, without their time.
type logbook struct{ bytes.Buffer }

func (b *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (b *logbook) lines() []string {
	if b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func (b *logbook) count(part string) int { return strings.Count(b.String(), part) }

// What is logged of a life with a failure in it, word by word.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &rig.Script{
			Lists: []rig.Reply{{Err: syscall.ECONNREFUSED}, {Err: syscall.ECONNREFUSED}, listed("10", "a1@9"), listed("20", "a1@9 b1@15")},
			Watches: []rig.Stream{
				{After: time.Minute, Err: apierrors.NewResourceExpired("too old resource version: 10 (12)")},
				{Events: []widgetEvent{
					{Type: watch.Modified, ResourceVersion: "21", Err: &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("the size is a text")}},
				}, Open: true},
			},
		}
		var book logbook
		rig.RunFor(t, src, &lw.Options{
			Name: "parts", Logger: book.logger(), List: lw.ListPages, Backoff: every(time.Second),
		}, 5*time.Minute)
		want := []string{
			`level=WARN msg="lw: parts: list failed" informer=parts op=list error="connection refused" failures=1 for=0s`,
			`level=INFO msg="lw: parts: synced" informer=parts op=list objects=1 version=10 failures=2 took=2s`,
			`level=WARN msg="lw: parts: watch failed" informer=parts op=watch error="too old resource version: 10 (12)" failures=1 for=0s`,
			`level=WARN msg="lw: parts: decode of default/b failed" informer=parts op=decode key=default/b error="the size is a text" failures=1 for=0s`,
			`level=INFO msg="lw: parts: works again" informer=parts failures=1 took=0s`,
		}
		rig.Same(t, "log", want, book.lines())
	})
}

// A failure that lasts is logged when it begins, when it becomes another one, at growing intervals
// and when it has ended; however often it is tried, and whatever numbers are in its text.
func TestLogOfLastingFailures(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	forbidden := apierrors.NewForbidden(widgets, "", errors.New("no role"))
	n := 0
	numbered := func() error {
		n++
		return fmt.Errorf("read tcp 10.0.0.1:%d->10.0.0.2:443: connection reset by peer", 9950+n)
	}
	synced := func(src *rig.Script) *rig.Script {
		src.Lists = []rig.Reply{listed("10", "a1@9")}
		return src
	}
	fail := func(err func() error) *rig.Script {
		return &rig.Script{OnList: func() rig.Reply { return rig.Reply{Err: err()} }, OnStream: func() rig.Stream { return rig.Stream{Err: err()} }}
	}
	always := func(err error) func() error { return func() error { return err } }
	for name, tc := range map[string]struct {
		src         *rig.Script
		mode        lw.ListMode
		least, most int           // lines
		errors      int           // at least
		d           time.Duration // instead of an hour
	}{
		"403":             {fail(always(forbidden)), lw.ListAuto, 4, 9, 150, 0},
		"401":             {fail(always(apierrors.NewUnauthorized("no token"))), lw.ListAuto, 4, 9, 150, 0},
		"404":             {fail(always(apierrors.NewNotFound(widgets, ""))), lw.ListAuto, 4, 9, 150, 0},
		"unreachable":     {fail(always(syscall.ECONNREFUSED)), lw.ListAuto, 4, 8, 100, 0},
		"for days":        {fail(always(syscall.ECONNREFUSED)), lw.ListPages, 45, 55, 100, 48 * time.Hour},
		"another port":    {fail(numbered), lw.ListPages, 4, 8, 100, 0},
		"endless 410":     {synced(&rig.Script{OnWatch: rig.Expired}), lw.ListPages, 4, 9, 100, 0},
		"a watch is cut":  {synced(&rig.Script{OnWatch: func() rig.Stream { n++; return cutAfter(rig.Bookmark(fmt.Sprint(10+n)), time.Minute) }}), lw.ListPages, 4, 15, 50, 0},
		"and at once":     {synced(&rig.Script{OnWatch: func() rig.Stream { n++; return cutAfter(rig.Bookmark(fmt.Sprint(10+n)), time.Second) }}), lw.ListPages, 4, 15, 500, 0},
		"each is another": {fail(func() error { n++; return errors.New(strings.Repeat("x", n%200+1)) }), lw.ListPages, 8, 15, 100, 0},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			var book logbook
			inf := rig.RunFor(t, tc.src, &lw.Options{Logger: book.logger(), List: tc.mode}, cmp.Or(tc.d, time.Hour))
			failed := int(inf.Status().Failed)
			if lines := book.lines(); len(lines) < tc.least || len(lines) > tc.most || failed < tc.errors {
				t.Errorf("%d lines for %d failed requests, want %d to %d for %d:\n%s", len(lines), failed, tc.least, tc.most, tc.errors, &book)
			}
		})
	}
}

func cutAfter(ev widgetEvent, d time.Duration) rig.Stream {
	return rig.Stream{Events: []widgetEvent{ev}, After: d, Err: errors.New("unexpected end")}
}

// The intervals grow from a minute on, each line says how many there were, and the last that it is
// over. After some calm a failure is a new one.
func TestLogIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		src := &rig.Script{Lists: []rig.Reply{listed("10", "a1@9")}, OnWatch: func() rig.Stream {
			switch n++; {
			case n <= 55: // nine minutes
				return rig.Stream{Err: syscall.ECONNREFUSED}
			case n == 56:
				return rig.Stream{Events: []widgetEvent{rig.Bookmark("20")}, After: 20 * time.Minute, Err: syscall.ECONNRESET}
			case n <= 58:
				return rig.Stream{Err: syscall.ECONNREFUSED}
			default:
				return rig.Events(rig.Bookmark("30"))
			}
		}}
		begin := time.Now()
		var book logbook
		var at []string
		handler := slog.NewTextHandler(&book, nil)
		logger := slog.New(&timed{handler, func(msg string) {
			at = append(at, fmt.Sprint(time.Since(begin).Round(time.Second), " ", msg))
		}})
		rig.RunFor(t, src, &lw.Options{Logger: logger, List: lw.ListPages, WatchTimeout: time.Hour, Backoff: every(10 * time.Second)}, 31*time.Minute)
		want := []string{
			"0s lw: Widget: synced",
			"0s lw: Widget: watch failed",
			"1m0s lw: Widget: watch still fails", "3m0s lw: Widget: watch still fails", "7m0s lw: Widget: watch still fails",
			"9m10s lw: Widget: works again",
			"29m10s lw: Widget: watch failed", "29m10s lw: Widget: watch failed", "29m30s lw: Widget: works again",
		}
		rig.Same(t, "log", want, at)
		rig.Same(t, "lines that say how many there were", 1, book.count("failures=55"))
	})
}

// timed tells of each record.
type timed struct {
	slog.Handler
	tell func(msg string)
}

func (t *timed) Handle(ctx context.Context, r slog.Record) error {
	t.tell(r.Message)
	return t.Handler.Handle(ctx, r)
}

// Of objects that cannot be read, as after a change of a schema, the first few are logged.
func TestLogOfBadObjects(t *testing.T) {
	for n, most := range map[int]int{3: 3, 5000: 8} {
		rig.Subtest(t, fmt.Sprint(n), func(t *testing.T) {
			r := rig.Reply{Obj: []*rig.Widget{rig.Stamped("a", 1, "9")}, Meta: metav1.ListMeta{ResourceVersion: "10"}}
			for i := range n {
				r.Bad = append(r.Bad, &lw.Error{Op: "decode", Key: rig.Key(fmt.Sprint("bad-", i)), Err: errors.New("the size is a text")})
			}
			var book logbook
			inf := rig.Run(t, &rig.Script{Lists: []rig.Reply{r}}, &lw.Options{Logger: book.logger(), List: lw.ListPages})
			rig.Same(t, "warnings", most, book.count("level=WARN"))
			rig.Same(t, "objects set aside", n, len(inf.Status().SetAside))
		})
	}
}

// An OnError is told of each failure once; to a Logger beside it go syncs and recoveries.
func TestLogBesideOnError(t *testing.T) {
	for _, own := range []bool{true, false} {
		rig.Subtest(t, fmt.Sprint("a logger ", own), func(t *testing.T) {
			var book logbook
			var errs rig.Errors
			opts := &lw.Options{List: lw.ListPages, OnError: errs.Add}
			if own {
				opts.Logger = book.logger()
			} else {
				before := slog.Default()
				slog.SetDefault(book.logger())
				defer slog.SetDefault(before)
			}
			src := &rig.Script{Lists: []rig.Reply{{Err: errors.New("down")}, {Err: errors.New("down")}, rig.List("10")},
				Watches: []rig.Stream{{Err: errors.New("down")}, {Err: errors.New("down")}, rig.Forever()}}
			rig.Start(t, lw.NewInformer[*rig.Widget](src, opts))
			rig.Sleep(time.Minute)
			mustCount(t, &errs, 4)
			want := 0
			if own {
				want = 2 // synced, and works again
			}
			rig.Same(t, "INFO, WARN", []int{want, 0}, []int{book.count("level=INFO"), book.count("level=WARN")})
		})
	}
}

// A new epoch, and an object that was changed in the cache, are logged each time.
func TestLogOfEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := 1000
		src := &rig.Script{OnList: func() rig.Reply { version--; return rig.List(fmt.Sprint(version / 10)) }, OnWatch: func() rig.Stream { return rig.ExpiredAfter(time.Minute) }}
		var book logbook
		inf := rig.RunFor(t, src, &lw.Options{Logger: book.logger(), List: lw.ListPages}, 30*time.Minute)
		within(t, "epochs", 2, inf.Status().Epoch, 30)
		rig.Same(t, "lines of epochs", inf.Status().Epoch, book.count("went back in time"))
	})
}

// Nothing is logged once Run has returned.
func TestNoLogAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book logbook
		src := &rig.Script{Lists: []rig.Reply{rig.List("10")}, Watches: []rig.Stream{{Err: errors.New("down")}, rig.Forever()}}
		inf := lw.NewInformer[*rig.Widget](src, &lw.Options{Logger: book.logger(), List: lw.ListPages})
		stop := rig.Begin(t, inf)
		rig.Sleep(5 * time.Second)
		stop()
		before := book.String()
		rig.Sleep(time.Hour)
		rig.Same(t, "log", before, book.String())
		rig.Same(t, "recoveries", 0, book.count("works again"))
	})
}

// The level, the message and the attributes of every sort of record, and the table of
// docs/operate.md, which has these and no others.
func TestLogRecords(t *testing.T) {
	var got []string
	synctest.Test(t, func(t *testing.T) {
		var book bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&book, nil))
		src := &rig.Script{
			// After a minute a failure that goes on is logged again.
			Lists: append(slices.Repeat([]rig.Reply{{Err: syscall.ECONNREFUSED}}, 100), listed("10", "b1@9")),
			Watches: []rig.Stream{
				{After: time.Second, Err: syscall.ECONNREFUSED}, {After: 2 * time.Minute, Err: syscall.ECONNREFUSED},
				{Events: []widgetEvent{
					{Type: watch.Modified, ResourceVersion: "21", Err: &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("the size is a text")}},
				}, Open: true},
			},
		}
		rig.RunFor(t, src, &lw.Options{
			Name: "parts", Logger: logger, List: lw.ListPages, PageSize: -1, WatchTimeout: 3 * time.Hour, Backoff: every(time.Second),
		}, 10*time.Minute)

		absent := unserved{lw.NewMemory[*rig.Widget]()}
		rig.Start(t, lw.NewInformer[*rig.Widget](absent, &lw.Options{Name: "mutated", Logger: logger}))
		server := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		inf := lw.NewInformer(server, &lw.Options{Name: "mutated", Logger: logger, DetectMutation: true})
		g := lw.NewGraph(&lw.GraphOptions{Name: "g", Logger: logger})
		lw.Derive(g, inf, rig.BySize, "bySize")
		rig.Start(t, inf)
		rig.Start(t, g)
		rig.Sleep(time.Minute + 500*time.Millisecond) // between two looks at the cache, which come each second
		w, _ := inf.Store().Get(rig.Key("a"))
		w.Size = 2
		rig.Create(t, server, "c", 3) // an event before the next look: the race detector sees that the look comes later
		rig.Sleep(time.Hour)
		got = records(t, &book)
	})
	want := []string{
		"INFO|lw: NAME: synced|informer op objects version failures took",
		"INFO|lw: NAME: waits|informer why",
		"INFO|lw: NAME: works again|informer failures took",
		"WARN|lw: GRAPH/COLLECTION: derive of KEY failed|graph collection op key error",
		"WARN|lw: NAME: OP failed|informer op error failures for",
		"WARN|lw: NAME: OP of KEY failed|informer op key error failures for",
		"WARN|lw: NAME: OP still fails|informer op error failures for",
		"WARN|lw: NAME: mutation of KEY failed|informer op key error",
		"WARN|lw: informer NAME: OPTION MISTAKE|value",
	}
	rig.Same(t, "records", want, got)
	page, err := os.ReadFile("../../docs/operate.md")
	rig.OK(t, err)
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| (INFO|WARN) \\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1]+"|"+m[2]+"|"+strings.NewReplacer("`", "", ",", "").Replace(m[3]))
	}
	slices.Sort(rows)
	rig.Same(t, "the table of docs/operate.md", want, rows)
}

// records returns the sorts of records in book, sorted: level, message and attributes in order.
func records(t *testing.T, book *bytes.Buffer) []string {
	t.Helper()
	general := strings.NewReplacer("parts", "NAME", "mutated", "NAME", "g/bySize", "GRAPH/COLLECTION", "list", "OP", "watch", "OP", "decode", "OP",
		"default/size1", "KEY", "default/a", "KEY", "default/b", "KEY", "PageSize is negative, and the default is used", "OPTION MISTAKE")
	var sorts []string
	for line := range bytes.Lines(book.Bytes()) {
		var record struct{ Level, Msg string }
		rig.OK(t, json.Unmarshal(line, &record))
		sorts = append(sorts, fmt.Sprintf("%s|%s|%s", record.Level, general.Replace(record.Msg), strings.Join(attributes(t, line), " ")))
	}
	slices.Sort(sorts)
	return slices.Compact(sorts)
}

// attributes returns the names of the attributes of a record in JSON, in their order.
func attributes(t *testing.T, line []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	for depth, name := 0, true; ; {
		token, err := d.Token()
		if err == io.EOF {
			return names
		}
		rig.OK(t, err)
		switch delim, ok := token.(json.Delim); {
		case ok && (delim == '{' || delim == '['):
			depth++
			name = true
		case ok:
			depth--
			name = true
		case depth == 1:
			if text, ok := token.(string); name && ok && !slices.Contains([]string{"time", "level", "msg"}, text) {
				names = append(names, text)
			}
			name = !name
		}
	}
}

// An unserved is a source of a kind that nobody serves.
type unserved struct{ *lw.Memory[*rig.Widget] }

func (unserved) Hints() lw.SourceHints { return lw.SourceHints{Unserved: "no CRD serves widgets"} }
