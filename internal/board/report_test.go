package board

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Each informer, collection and graph has the worst of its states.
func TestStates(t *testing.T) {
	long, short := &Failure{ForSeconds: Seconds(time.Minute)}, &Failure{ForSeconds: Seconds(time.Minute - 1)}
	one := Faults{Total: 1}
	for _, tt := range []struct {
		informer Informer
		want     State
	}{
		{Informer{Synced: true}, OK},
		{Informer{}, Syncing},
		{Informer{Synced: true, Phase: "stopped"}, Stopping},
		{Informer{Unserved: "why"}, Syncing},
		{Informer{Synced: true, Unserved: "why"}, Waits},
		{Informer{Failure: short}, Retrying},
		{Informer{Synced: true, Failure: short, Phase: "stopped"}, Retrying},
		{Informer{Synced: true, Pending: 1024}, OK},
		{Informer{Synced: true, Pending: 1025, Failure: short}, Behind},
		{Informer{Synced: true, Pending: 1025, SetAside: one}, Incomplete},
		{Informer{Synced: true, SetAside: one, Failure: short}, Incomplete},
		{Informer{Synced: true, SetAside: one, Failure: long}, Failing},
	} {
		if got := tt.informer.judge(); got != tt.want {
			t.Errorf("%+v is %s, want %s", tt.informer, got, tt.want)
		}
	}
	r := Report{Graphs: []Graph{
		{Synced: true, Collections: []Collection{{Synced: true}, {Synced: true, Conflicts: one},
			{Synced: true, Pending: 2000}}},
		{Synced: true, Pending: 2000, Collections: []Collection{{}, {Synced: true, SetAside: one, Conflicts: one}}},
		{Synced: true, Pending: 2000, Collections: []Collection{{}}},
		{},
		{Synced: true},
	}}
	r.Judge()
	var got []State
	for _, g := range r.Graphs {
		got = append(got, g.State)
		for _, c := range g.Collections {
			got = append(got, c.State)
		}
	}
	want := []State{Conflict, OK, Conflict, Behind, Incomplete, Syncing, Incomplete, Behind, Syncing, Syncing, OK}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A graph that is in a step for ten seconds is behind, whether it has synced or not.
func TestStateOfAStep(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	for took, want := range map[time.Duration][2]State{
		0: {OK, Syncing}, 9 * time.Second: {OK, Syncing}, 10 * time.Second: {Behind, Behind}, time.Hour: {Behind, Behind},
	} {
		r := Report{Time: now, Graphs: []Graph{{Synced: true, StepBegan: now.Add(-took)}, {StepBegan: now.Add(-took)}}}
		r.Judge()
		if got := [2]State{r.Graphs[0].State, r.Graphs[1].State}; got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

// What the page says at its top, and in what order it shows what it has.
func TestVerdict(t *testing.T) {
	report := func(all ...State) *Report {
		r := &Report{}
		for i, s := range all {
			r.Informers = append(r.Informers, Informer{Name: string(rune('a' + i)), State: s})
		}
		return r
	}
	for want, r := range map[string]*Report{
		"Nothing runs":        report(),
		"All in step":         report(OK, OK),
		"1 of 2 in step":      report(OK, Syncing),
		"1 of 3 needs a look": report(OK, Syncing, Failing),
		"2 of 3 need a look":  report(Behind, OK, Conflict),
	} {
		if got := r.verdict(); got != want {
			t.Errorf("%v: %s, want %s", r.Informers, got, want)
		}
	}
	page := report(OK, Syncing, Failing, Behind, Failing).Page(0, false)
	var at []int
	for _, name := range []string{"c", "e", "d", "b", "a"} {
		at = append(at, strings.Index(page, `<th scope="row" class="name">`+name))
	}
	if at[0] < 0 || !slices.IsSorted(at) {
		t.Errorf("the worst is not first: %v", at)
	}
	for _, s := range states {
		if s.outline() == "" || s != OK && s.outline() == OK.outline() {
			t.Errorf("%s has no mark of its own", s)
		}
	}
}

func TestLag(t *testing.T) {
	l := Lag{Count: 100, Buckets: []Bucket{{Seconds(time.Millisecond), 50}, {Seconds(time.Second), 98}}}
	for share, want := range map[float64]string{.1: "1 ms", .5: "1 ms", .51: "1 s", .98: "1 s", .99: "> 1 s"} {
		if got := l.text(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
	if got := (Lag{}).text(.5); got != "–" {
		t.Errorf("nothing was timed: %s", got)
	}
}

// The first faults are seen at once, the next ones with a click, and the others are counted.
func TestManyFaults(t *testing.T) {
	f := Faults{Total: 250}
	for range MaxFaults {
		f.Objects = append(f.Objects, Fault{Namespace: "ns", Name: "obj", Cause: "decode: no"})
	}
	page := (&Report{Informers: []Informer{{Name: "a", SetAside: f}}}).Page(0, false)
	for text, want := range map[string]int{
		"<dt>ns/obj</dt><dd>decode: no</dd>": 100, "250 objects are set aside.": 1, "<summary>245 more</summary>": 1,
		"And 150 more": 1,
	} {
		if got := strings.Count(page, text); got != want {
			t.Errorf("%q is %d times on the page, want %d", text, got, want)
		}
	}
	if first, _, _ := strings.Cut(page, "<details>"); strings.Count(first, "<dt>ns/obj</dt>") != shownFaults {
		t.Error("other than 5 are seen at once")
	}
}

func TestThisProcess(t *testing.T) {
	p := ThisProcess()
	if p.Program == "" || p.Go == "" || p.Goroutines == 0 || p.Heap == 0 || p.Memory < p.Heap {
		t.Errorf("%+v", p)
	}
}

// The line of an informer says what it has asked for, why it was listed again, how old the content
// of a source that polls is, and since when it needs another list.
func TestStory(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	half, most := new(Seconds(time.Second)), new(Seconds(time.Minute))
	for want, inf := range map[string]Informer{
		"1 event, 3 relists (2 expired, 1 failing)": {
			Events: 1, Relists: 3, ListsBy: Counts{"first": 1, "failing": 1, "expired": 2},
		},
		"0 events, 1 list, 1 watch": {Requests: Requests{Lists: 1, Watches: 1}},
		"0 events, 1 list, 2 streamed lists, 3 watches, 1 probe, 4 failed": {
			Requests: Requests{Lists: 1, Streams: 2, Watches: 5, Probes: 1, Failed: 4},
		},
		"0 events, 1 streamed list": {Requests: Requests{Streams: 1, Watches: 1}},
		"0 events, the server went back in time 1 time, an index of 7, decoded by lw": {
			Epochs: 1, Indexes: []int{7}, Decoder: "lw",
		},
		"0 events, indexes of 1, 2 and 3,000, a writes half within 1 s and 99 % within 1 min": {
			Indexes: []int{1, 2, 3000}, Behind: []Delay{{By: "a", Half: half, Most: most}, {By: "b"}},
		},
		"0 events, the last whole list 1 min 30 s ago, another is due for 30 s": {
			LastList: now.Add(-90 * time.Second), ListDue: now.Add(-30 * time.Second),
		},
	} {
		if got := inf.story(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A handler's calls of all types are added up, and one that needs a look is seen at once.
func TestPageOfHandlers(t *testing.T) {
	for _, tc := range []struct {
		handler Handler
		open    bool
	}{{Handler{Pending: 1024}, false}, {Handler{Pending: 1025}, true}, {Handler{Panics: 1}, true}} {
		tc.handler.Calls = Calls{Added: 1, Updated: 20, Deleted: 300}
		page := (&Report{Informers: []Informer{{Handlers: []Handler{tc.handler}}}}).Page(0, false)
		got := []bool{strings.Contains(page, `data-label="Calls">321<`), strings.Contains(page, `<details open="open">`)}
		if diff := cmp.Diff([]bool{true, tc.open}, got); diff != "" {
			t.Errorf("%+v: (-want +got):\n%s", tc.handler, diff)
		}
	}
}

// A page says how much of a limit is used, what that has cost, and which namespaces use it most.
func TestPageOfALimit(t *testing.T) {
	for want, u := range map[string]*Packed{
		" Nothing was let go.</p>":                          {},
		" 1 object let go, 0 requests for such.</p>":        {LetGo: 1},
		" 0 objects let go, 1 request for such.</p>":        {Requests: 1},
		" for such, 3 of them for what was gone.</p>":       {LetGo: 1, Gone: 3},
		" for such, 4 reads of metadata alone.</p>":         {LetGo: 1, Failed: 4},
		"<strong>1.0 KiB of a limit of 2.0 KiB.</strong>":   {Bytes: 1024, Limit: 2048},
		"<dt>a</dt><dd>5 B of 1 object, and 2 let go</dd>":  {Namespaces: []Share{{"a", 1, 5, 2}}, TotalNamespaces: 1},
		"<dt>no namespace</dt><dd>0 B of 0 objects, and 0 ": {Namespaces: []Share{{}}, TotalNamespaces: 1},
		"</dl><p>And 2 namespaces more.</p>":                {Namespaces: []Share{{}}, TotalNamespaces: 3},
		"and 0 let go</dd></div></dl><p class=\"story\">":   {Namespaces: []Share{{}}, TotalNamespaces: 1},
	} {
		_, got, _ := strings.Cut((&Report{Informers: []Informer{{Packed: u}}}).Page(0, false), `<p class="why">`)
		if !strings.Contains(got, want) {
			t.Errorf("%+v: no %q in %s", u, want, got)
		}
	}
}

// A page says what a controller writes again and again, and who does.
func TestPageOfLoops(t *testing.T) {
	for want, l := range map[string]Loop{
		"<dt>k answers its own writes</dt><dd>the object of Pod a, 1 round, the last <time": {
			Key: "k", Kind: LoopAnswers, Collection: "Pod", Name: "a", Rounds: 1, Last: time.Unix(0, 0),
		},
		"<dt>k: two writers undo each other</dt><dd>spec.x of Pod ns/a, by m and n, 2 rounds, the last never</dd>": {
			Key: "k", Kind: LoopUndo, Collection: "Pod", Namespace: "ns", Name: "a", Field: "spec.x",
			Managers: []string{"m", "n"}, Rounds: 2,
		},
	} {
		page := (&Report{Controllers: []Controller{{Loops: []Loop{l}}}}).Page(0, false)
		_, got, _ := strings.Cut(page, `<dl class="faults">`)
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// A page names the function that a step is in, and nothing while there is no step.
func TestPageOfACall(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	for _, tc := range []struct {
		call  string
		began time.Time
		want  string
	}{
		{"Where of <pairs> at ns/a&b", now.Add(-75 * time.Second),
			"<strong>A step runs for 1 min 15 s</strong>, since <time datetime=\"2026-11-22T09:28:45Z\">2026-11-22 09:28:45 UTC</time>. It is in Where of &lt;pairs&gt; at ns/a&amp;b, or was there last.</p>"},
		{"index of c", now, "<strong>A step runs for 0 s</strong>, since <time datetime=\"2026-11-22T09:30:00Z\">2026-11-22 09:30:00 UTC</time>. It is in index of c, or was there last.</p>"},
		{"", time.Time{}, ""},
	} {
		r := &Report{Time: now, Graphs: []Graph{{Name: "g", Call: tc.call, StepBegan: tc.began}}}
		_, got, _ := strings.Cut(r.Page(0, false), `<p class="why">`)
		got, _, _ = strings.Cut(got, "\n")
		if got, _, _ = strings.Cut(got, "</section>"); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.call, got, tc.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 12345: "12,345", 123456: "123,456", 1234567: "1,234,567",
		math.MaxUint64: "18,446,744,073,709,551,615",
	} {
		if got := number(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 objects", 1: "1 object", 1200: "1,200 objects"} {
		if got := count(n, "object"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", -time.Second: "0 s", 1: "1 µs", 1500: "1 µs", 999 * time.Microsecond: "999 µs",
		time.Millisecond: "1 ms", 999*time.Millisecond + 999*time.Microsecond: "999 ms",
		time.Second: "1 s", 59*time.Second + 900*time.Millisecond: "59 s", time.Minute: "1 min",
		3*time.Minute + 6*time.Second: "3 min 6 s", time.Hour: "1 h", time.Hour + 59*time.Second: "1 h",
		25*time.Hour + time.Minute: "1 d 1 h", 24*time.Hour + 30*time.Minute: "1 d",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB", 999 << 10: "999 KiB", 1000 << 10: "1.0 MiB",
		61<<20 + 1<<19: "62 MiB", 512 << 20: "512 MiB", 3 << 30: "3.0 GiB", 4000 << 30: "4000 GiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 186*time.Second + 200*time.Millisecond: "186.2", 1499 * time.Microsecond: "0.001499",
		50 * time.Microsecond: "0.00005", 999: "0", 48 * time.Hour: "172800",
	} {
		got, err := json.Marshal(Seconds(d))
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v, want %s", d, got, err, want)
		}
	}
}
