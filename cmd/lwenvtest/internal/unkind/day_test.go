package unkind_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/unkind"
	"github.com/go-lw/lw/lwtest"
)

// A bench is a server on a day, and a client.
type bench struct {
	*testing.T
	server *lwtest.Server
	client *http.Client
	agent  string
	faults []unkind.Fault
}

func inBubble(t *testing.T, day unkind.Day, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.StartServer(
			lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"},
			lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true},
			lwtest.Resource{Group: "example.com", Plural: "jobs", Kind: "Job", Status: true},
			lwtest.Resource{Group: "coordination.k8s.io", Plural: "leases", Kind: "Lease"},
		)
		defer server.Close()
		b := &bench{T: t, server: server, client: server.Client(), agent: "program"}
		b.client.Transport.(*http.Transport).DisableKeepAlives = true // a reset is not repeated on a new connection
		day.Begin(server, func(f unkind.Fault) { b.faults = append(b.faults, f) })
		f(b)
	})
}

const (
	maps = "/api/v1/namespaces/default/configmaps"
	jobs = "/apis/example.com/v1/namespaces/default/jobs"
)

// do sends a request, and returns the status and the name of the answer, if there is one.
func (b *bench) do(method, path, body string) (code int, name string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.server.URL()+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("User-Agent", b.agent)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	var obj metav1.PartialObjectMetadata
	if err := json.NewDecoder(resp.Body).Decode(&obj); err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, obj.Name
}

// met returns the faults as lines without their times, sorted.
func (b *bench) met() []string {
	var out []string
	for _, f := range b.faults {
		_, line, _ := strings.Cut(f.String(), " ")
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// The same objects meet the same faults, in whatever order they come, and with generated names.
func TestSameObjectsMeetTheSame(t *testing.T) {
	kinds := map[unkind.Kind]float64{unkind.Conflict: .5, unkind.Lose: .3, unkind.Error: .3, unkind.Late: .3, unkind.Busy: .1}
	all := map[uint64][][]string{}
	for _, seed := range []uint64{1, 2} {
		for _, backward := range []bool{false, true} {
			inBubble(t, unkind.Day{Seed: seed, Kinds: kinds}, func(b *bench) {
				order := []int{0, 1, 2, 3, 4, 5, 6, 7}
				if backward {
					slices.Reverse(order)
				}
				name := func(i int) string { return fmt.Sprint("a", i) }
				for _, i := range order {
					for range 3 {
						b.do("POST", maps, fmt.Sprintf(`{"metadata":{"name":%q}}`, name(i)))
					}
				}
				for range 3 {
					for _, i := range order {
						b.do("PUT", maps+"/"+name(i), fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":"1"}}`, name(i)))
						b.do("PATCH", maps+"/"+name(i), `{"metadata":{"labels":{"x":"y"}}}`)
						b.do("GET", maps+"/"+name(i), "")
					}
				}
				for _, i := range order { // no two of a prefix are made at once, so that each is the n-th
					for {
						code, generated := b.do("POST", jobs, fmt.Sprintf(`{"metadata":{"generateName":"%s-"}}`, name(i)))
						if code == 201 {
							b.do("PATCH", jobs+"/"+generated+"/status", `{"status":{"x":1}}`)
							b.do("DELETE", jobs+"/"+generated, "")
							break
						}
					}
				}
				all[seed] = append(all[seed], b.met())
			})
		}
		if diff := cmp.Diff(all[seed][0], all[seed][1]); diff != "" {
			t.Errorf("seed %d, forward and backward:\n%s", seed, diff)
		}
	}
	if cmp.Equal(all[1][0], all[2][0]) {
		t.Error("two seeds are the same")
	}
	text := strings.Join(all[1][0], "\n")
	for _, want := range []string{
		`conflict: update configmaps default/a\d #\d: somebody else writes first`, `lose: create configmaps default/a\d #\d: done, and`,
		`late: patch configmaps default/a\d #\d: done, and answered \d+ms later`, `error: get configmaps default/a\d #\d: 500`,
		`busy: \w+ configmaps default/a\d #\d: 429`, `\w+: create jobs.example.com default/a\d-\* #\d: `,
		`\w+: patch jobs.example.com/status default/a\d-\* #1: `,
	} {
		if !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("no fault is %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// Only those meet faults whom the day is about.
func TestWhoIsSpared(t *testing.T) {
	error := map[unkind.Kind]float64{unkind.Error: 1}
	program := regexp.MustCompile("^program")
	for name, c := range map[string]struct {
		day   unkind.Day
		agent string
		path  string
		want  int
	}{
		"everybody":       {unkind.Day{Seed: 1, Kinds: error}, "test", maps, 500},
		"the agent":       {unkind.Day{Seed: 1, Kinds: error, Agent: program}, "program/v1", maps, 500},
		"another agent":   {unkind.Day{Seed: 1, Kinds: error, Agent: program}, "test", maps, 200},
		"lwenvtest":       {unkind.Day{Seed: 1, Kinds: error}, "lwenvtest-admission", maps, 200},
		"a leader":        {unkind.Day{Seed: 1, Kinds: error}, "program", "/apis/coordination.k8s.io/v1/leases", 200},
		"on a kind day":   {unkind.Day{Kinds: error}, "program", maps, 200},
		"discovery":       {unkind.Day{Seed: 1, Kinds: error}, "program", "/apis/example.com/v1", 200},
		"with no faults":  {unkind.Day{Seed: 1, Kinds: map[unkind.Kind]float64{}}, "program", maps, 200},
		"without a named": {unkind.Day{Seed: 1}, "program", maps, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, c.day, func(b *bench) {
				b.agent = c.agent
				if code, _ := b.do("GET", c.path, ""); code != c.want || len(b.faults) != map[int]int{500: 1}[c.want] {
					t.Errorf("got %d, want %d; faults: %q", code, c.want, b.met())
				}
			})
		})
	}
}

// A resource has at most two ends of watches in two minutes, whoever watches it, and has ends as
// long as the day lasts.
func TestEndsAreCounted(t *testing.T) {
	for seed := range uint64(5) {
		inBubble(t, unkind.Day{Seed: seed + 1}, func(b *bench) {
			began := time.Now()
			ends := map[string][]time.Duration{}
			watch := func(path string) {
				version := ""
				for time.Since(began) < 30*time.Minute {
					r, err := http.NewRequestWithContext(b.Context(), "GET", b.server.URL()+path+"?watch=1&timeoutSeconds=3000"+version, nil)
					if err != nil {
						b.Error(err)
						return
					}
					resp, err := b.client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = bufio.NewReader(resp.Body).WriteTo(io.Discard) // it ends one way or another
					_ = resp.Body.Close()
					ends[path] = append(ends[path], time.Since(began))
					version = "&resourceVersion=" + b.server.ResourceVersion()
					time.Sleep(time.Second)
				}
			}
			done := make(chan bool)
			go func() { watch("/api/v1/configmaps"); done <- true }()
			watch("/apis/example.com/v1/jobs")
			<-done
			for path, at := range ends {
				for i := 2; i < len(at); i++ {
					if at[i]-at[i-2] < 2*time.Minute {
						t.Errorf("seed %d, %s: ends after %v, %v and %v", seed+1, path, at[i-2], at[i-1], at[i])
					}
				}
				if len(at) < 20 {
					t.Errorf("seed %d, %s: %d ends in half an hour", seed+1, path, len(at))
				}
			}
			text := strings.Join(b.met(), "\n")
			for _, want := range []string{"cut: watch.*ends in", "cut: watch.*breaks in", "expired: watch.*410 in 0s", "expired: watch.*410 in [1-9]",
				`lag: watch jobs.example.com #1: each event comes \d+ms late`} {
				if !regexp.MustCompile(want).MatchString(text) {
					t.Errorf("seed %d: no fault is %q in\n%s", seed+1, want, text)
				}
			}
		})
	}
}

// Answers are late, but not for longer than five seconds a minute in all.
func TestLatenessIsBounded(t *testing.T) {
	inBubble(t, unkind.Day{Seed: 1, Kinds: map[unkind.Kind]float64{unkind.Late: 1}}, func(b *bench) {
		for range 3 {
			before := time.Now()
			for i := range 100 {
				b.do("POST", maps, fmt.Sprintf(`{"metadata":{"name":"a%d-%d"}}`, before.Unix(), i))
			}
			if d := time.Since(before); d < 4500*time.Millisecond || d > 5*time.Second {
				t.Errorf("100 writes took %v", d)
			}
			time.Sleep(time.Minute)
		}
		n := len(b.faults)
		if b.do("POST", maps, `{"metadata":{"name":"a/b"}}`); len(b.faults) != n {
			t.Errorf("what is refused is late too: %v", b.faults[n])
		}
	})
}

// A program that tries again gets there at its third try, but for what the user has asked for.
func TestFailuresOfAnObjectAreBounded(t *testing.T) {
	few := map[unkind.Kind]float64{unkind.Conflict: 0, unkind.Lose: 0, unkind.Error: 0, unkind.Busy: 0}
	many := map[unkind.Kind]float64{unkind.Error: .5}
	for _, c := range []struct {
		kinds     map[unkind.Kind]float64
		low, high int
	}{{few, 2, 2}, {many, 30, 70}} {
		inBubble(t, unkind.Day{Seed: 1, Kinds: c.kinds}, func(b *bench) {
			if _, err := lwtest.Objects[*metav1.PartialObjectMetadata](b.server, "jobs").Create(
				&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}); err != nil {
				b.Fatal(err)
			}
			for range 100 {
				b.do("PUT", jobs+"/a", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","resourceVersion":"1"}}`)
				b.do("PATCH", jobs+"/a", `{"metadata":{"labels":{"x":"y"}}}`)
			}
			counts := map[lwtest.Verb]int{}
			for _, f := range b.faults {
				counts[f.Verb]++
			}
			for _, verb := range []lwtest.Verb{lwtest.Update, lwtest.Patch} {
				if n := counts[verb]; n < c.low || n > c.high {
					t.Errorf("%d faults of each %s, want %d to %d: %q", n, verb, c.low, c.high, b.met())
				}
			}
		})
	}
}

// The flags of a Day make that Day.
func TestFlagsOfADay(t *testing.T) {
	for _, line := range []string{"", "-unkind=7", "-unkind=7 -agent=a|b -kinds=error=0.3,lag", "-unkind=7 -kinds=busy"} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		day := unkind.AddFlags(flags)
		if err := flags.Parse(strings.Fields(line)); err != nil || strings.Join(day.Flags(), " ") != line {
			t.Errorf("%s is %q, %v", line, day.Flags(), err)
		}
	}
	for _, line := range []string{"-unkind=x", "-unkind=0", "-agent=(", "-kinds=x"} {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		if unkind.AddFlags(flags); flags.Parse([]string{line}) == nil {
			t.Errorf("%s is no error", line)
		}
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	if day := unkind.AddFlags(flags); flags.Parse([]string{"-unkind", "go", "test"}) != nil || day.Seed == 0 || flags.Arg(0) != "go" {
		t.Errorf("-unkind has the seed %d, and %q after it", day.Seed, flags.Args())
	}
}

func TestFlags(t *testing.T) {
	for text, want := range map[string]string{
		"cut":                    "-unkind=3 -kinds=cut",
		"error=0.3, lag,expired": "-unkind=3 -kinds=error=0.3,expired,lag",
		"nap":                    `lwenvtest: -kinds=nap: no kind of fault is "nap"; there are busy, conflict, cut, error, expired, lag, late, lose`,
		"lose=2":                 "lwenvtest: -kinds=lose=2: the rate of lose: a rate is above 0 and at most 1, and cut, expired, lag have none",
		"lag=0.1":                "lwenvtest: -kinds=lag=0.1: the rate of lag: a rate is above 0 and at most 1, and cut, expired, lag have none",
		"late=x":                 `lwenvtest: -kinds=late=x: the rate of late: strconv.ParseFloat: parsing "x": invalid syntax`,
	} {
		kinds, err := unkind.ParseKinds(text)
		got := strings.Join(unkind.Day{Seed: 3, Kinds: kinds}.Flags(), " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	got := fmt.Sprint(unkind.Environ([]string{"A=B"}), unkind.Environ([]string{"GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=3s"}))
	if want := "[A=B GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=20s] [GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=3s]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
