package simulate

import (
	"cmp"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// TestPlain asks for JSON, in the forms that a client takes.
func TestPlain(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"application/vnd.kubernetes.protobuf": "application/json",
		"application/vnd.kubernetes.protobuf,application/json":      "application/json",
		"application/json;as=Table;g=meta.k8s.io, application/json": "application/json;as=Table;g=meta.k8s.io, application/json",
	} {
		h := http.Header{"Accept": {accept}}
		plain(h)
		if got := h.Get("Accept"); got != want {
			t.Errorf("Accept %q is %q, want %q", accept, got, want)
		}
	}
}

// TestAsJSON answers a client that wants protobuf in JSON, which stories are made of.
func TestAsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, cluster.Resources()...)
		g := newGate(s)
		r := rig.Must[*http.Request](t)(http.NewRequest(http.MethodGet, s.URL()+"/api/v1/configmaps", http.NoBody))
		r.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		go func() {
			<-g.wake
			requests, _ := g.open()
			requests[0].answer = g.serve(requests[0])
			g.release(requests[0])
		}()
		answer := rig.Must[*http.Response](t)(network{g, 0}.RoundTrip(r))
		_ = answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("the answer is %s", kind)
		}
	})
}

// TestGivesUp ends a request whose program has given up, and holds it no more. A program that has
// crashed has no network.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(lwtest.NewServer(t, cluster.Resources()...))
		ctx, cancel := context.WithCancel(t.Context())
		ask := func() error {
			const secrets = "http://server/api/v1/namespaces/a/secrets"
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, secrets, strings.NewReader("{}"))
			rig.OK(t, err)
			resp, err := network{g, 0}.RoundTrip(r)
			if resp != nil {
				t.Errorf("the answer is %s, and the error %v", resp.Status, err)
				_ = resp.Body.Close()
			}
			return err
		}
		for range 2 {
			go func() { _ = ask() }()
		}
		synctest.Wait()
		requests, _ := g.open()
		rig.Same(t, "held", 2, len(requests))
		for _, r := range requests {
			rig.Same(t, "the body of what is held", "{}", string(r.body))
		}
		cancel()
		synctest.Wait()
		requests, _ = g.open()
		rig.Same(t, "held at the end", 0, len(requests))
		rig.Same(t, "the error", error(context.Canceled), ask(), cmpopts.EquateErrors())
		ctx = t.Context()
		asked := make(chan error, 1)
		go func() { asked <- ask() }()
		synctest.Wait()
		g.crash()
		rig.Same(t, "held in a crash", error(errDown), <-asked, cmpopts.EquateErrors())
		rig.Same(t, "after a crash", error(errDown), ask(), cmpopts.EquateErrors())
	})
}

// learned returns a worker of this process that has made the calm run.
func learned(t *testing.T, w *World) *worker {
	t.Helper()
	rig.OK(t, w.prepare())
	t.Setenv("GODEBUG", debugs)
	quiet()
	k := &worker{t: t, world: w}
	if !k.learn() {
		t.Fatal("the calm run fails")
	}
	return k
}

// TestCalmRun is what the calm run shows, with which all histories are compared.
func TestCalmRun(t *testing.T) {
	w := &World{
		Kubernetes: "1.31", Start: manage(clean), Steps: steps, Actors: Actors{Jobs, Pods}, Without: []string{keep, hold},
	}
	got := *learned(t, w).calm
	rig.Same(t, "the objects at the end", 2, len(got.end.Objects))
	rig.Same(t, "their names", map[string]bool{"ConfigMap one": true, "Secret one-child": true}, got.end.names)
	got.end = State{}
	want := calmRun{
		Writes: 4, Changes: 6, Watched: []string{"configmaps", "secrets"}, Actors: []string{garbage, "jobs", "pods"},
		Kinds: []string{absent, cut, conflict, refuse, lose, slow, crashBefore, crashAfter, lease, foreign, stale},
		Stale: []string{"configmaps", "secrets"}, Children: map[string]int{"Secret of ConfigMap default/one": 1},
		Varies: map[string]bool{}, Foreign: map[string]bool{},
	}
	rig.Same(t, "the calm run", want, got, gocmp.AllowUnexported(calmRun{}, State{}))
}

// TestAlways looks at each state, also at those that Steps make by W.Server.
func TestAlways(t *testing.T) {
	seen := map[string]bool{}
	w := &World{
		Start: manage(clean),
		Steps: func(w *W) {
			steps(w)
			w.Settle()
			other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
			if _, err := lwtest.Objects[*corev1.Secret](w.Server, "secrets").Create(other); err != nil {
				panic(err)
			}
		},
		Always: func(s State) error {
			for _, obj := range s.Objects {
				seen[obj.GetKind()+" "+obj.GetName()+" "+obj.GetResourceVersion()] = true
			}
			return nil
		},
	}
	if err := w.prepare(); err != nil {
		t.Fatal(err)
	}
	quiet()
	k := &worker{t: t, world: w}
	out := k.bubble(plan{}, 0)
	if out.Failure != nil {
		t.Fatal(out.Failure)
	}
	want := []string{
		"ConfigMap one 2", "ConfigMap one 4", "ConfigMap one 5", "ConfigMap one 7", "Secret one-child 3",
		"Secret one-child 6", "Secret other 8",
	}
	if diff := gocmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("Always has not seen each state: (-want +got)\n%s\n%s", diff, story(out.Story))
	}
}

// TestPause lets the next step come at any time in a history with an order of its own, and in the calm
// run before the program does anything.
func TestPause(t *testing.T) {
	w := &World{Start: manage(clean), Steps: func(w *W) { w.Apply(one); w.Apply(two) }}
	k := learned(t, w)
	between := map[int]bool{} // how often the program sees or writes something between the two steps
	for n := range uint64(16) {
		out := k.bubble(plan{order: n}, 0)
		if out.Failure != nil {
			t.Fatal(out.Failure)
		}
		steps, does := 0, 0
		for _, line := range out.Story {
			if strings.HasPrefix(line, "a user applies") {
				steps++
			} else if steps == 1 {
				does++
			}
		}
		if between[does] = true; n == 0 && does > 0 || steps != 2 {
			t.Errorf("order %d: %d steps, and %d lines between\n%s", n, steps, does, story(out.Story))
		}
	}
	if len(between) < 4 {
		t.Errorf("of 16 orders the lines between two steps are %v", slices.Sorted(maps.Keys(between)))
	}
}

// TestRun keeps what fails. The failing test runs in a process of its own.
func TestRun(t *testing.T) {
	const inner = "LW_SIMULATE_TESTRUN"
	if os.Getenv(inner) != "" {
		Run(t, World{Start: manage(between), Steps: steps})
		return
	}
	cmd := exec.Command(rig.Must[string](t)(os.Executable()), "-test.run=^TestRun$")
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), inner+"=1")
	out, err := cmd.CombinedOutput()
	files := rig.Must[[]string](t)(filepath.Glob(filepath.Join(cmd.Dir, "testdata/simulate/TestRun/*")))
	if err == nil || len(files) != 1 || !strings.Contains(string(out), filepath.Base(files[0])) {
		t.Fatalf("%v, and it has kept %q:\n%s", err, files, out)
	}
	lacks(t, string(out), "known: why", "simulate: another end", "the program:")
}

// TestParse says what a request is for.
func TestParse(t *testing.T) {
	type is struct {
		verb                                        lwtest.Verb
		group, version, plural, ns, name, sub, path string
		writes                                      bool
	}
	for from, want := range map[string]is{
		"GET /api/v1/pods":                         {lwtest.List, "", "v1", "pods", "", "", "", "pods", false},
		"GET /api/v1/namespaces/n/pods?watch=true": {lwtest.Watch, "", "v1", "pods", "n", "", "", "pods/n", false},
		"GET /api/v1/namespaces/n/pods?watch=1":    {lwtest.Watch, "", "v1", "pods", "n", "", "", "pods/n", false},
		"GET /api/v1/namespaces/n/pods?watch=0":    {lwtest.List, "", "v1", "pods", "n", "", "", "pods/n", false},
		"GET /apis/g/v2/namespaces/n/as/a":         {lwtest.Get, "g", "v2", "as", "n", "a", "", "as/n/a", false},
		"GET /api/v1/namespaces":                   {lwtest.List, "", "v1", "namespaces", "", "", "", "namespaces", false},
		"GET /api/v1/namespaces/n":                 {lwtest.Get, "", "v1", "namespaces", "", "n", "", "namespaces/n", false},
		"PUT /api/v1/namespaces/n/status":          {lwtest.Update, "", "v1", "namespaces", "", "n", "status", "namespaces/n/status", true},
		"POST /apis/g/v2/namespaces/n/as":          {lwtest.Create, "g", "v2", "as", "n", "", "", "as/n", true},
		"PATCH /apis/g/v2/as/a/scale/":             {lwtest.Patch, "g", "v2", "as", "", "a", "scale", "as/a/scale", true},
		"DELETE /apis/g/v2/as/a":                   {lwtest.Delete, "g", "v2", "as", "", "a", "", "as/a", true},
		"DELETE /apis/g/v2/namespaces/n/as":        {lwtest.DeleteCollection, "g", "v2", "as", "n", "", "", "as/n", true},
		"GET /api":                                 {}, "GET /api/v1": {}, "GET /apis/g/v2": {}, "GET /version": {}, "GET /apis": {},
	} {
		method, url, _ := strings.Cut(from, " ")
		r := &request{http: rig.Must[*http.Request](t)(http.NewRequest(method, "http://server"+url, nil)), body: []byte("b")}
		if r.parse() != (want.plural != "") {
			t.Errorf("%s is for discovery: %v", from, want.plural != "")
		}
		got := is{r.verb, r.group, r.version, r.plural, r.namespace, r.name, r.sub, r.path(), r.writes()}
		if got != want {
			t.Errorf("%s is %+v, want %+v", from, got, want)
		}
		_, query, _ := strings.Cut(url, "?")
		rig.Same(t, "the key", string(want.verb)+" "+want.path+"?"+query+" 62", r.key())
	}
}

// TestHeld holds what a server sends to a watch, line by line, until it may pass.
func TestHeld(t *testing.T) {
	const added = `{"type":"ADDED","object":{"metadata":{"namespace":"n","name":"a","resourceVersion":"7"}}}` + "\n"
	const bookmark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}` + "\n"
	type seen struct{ kind, object, version, text string }
	for name, tt := range map[string]struct {
		stream bool
		parts  []string
		want   []seen
	}{
		"lines": {false, []string{added + bookmark, "{}\n"},
			[]seen{{"ADDED", "n/a", "7", added}, {"BOOKMARK", "", "9", bookmark}, {"", "", "", "{}\n"}}},
		"parts": {false, []string{added[:10], added[10:] + bookmark[:3], bookmark[3:], "{"},
			[]seen{{"ADDED", "n/a", "7", added}, {"BOOKMARK", "", "9", bookmark}}},
		"stream": {true, []string{added, added, bookmark, added},
			[]seen{{"SYNCED", "", "9", added + added + bookmark}, {"ADDED", "n/a", "7", added}}},
		"no list": {true, []string{added, `{"type":"ERROR"}` + "\n", bookmark},
			[]seen{{"SYNCED", "", "", added + `{"type":"ERROR"}` + "\n"}, {"BOOKMARK", "", "9", bookmark}}},
	} {
		g := newGate(nil)
		w := &watch{gate: g, ready: make(chan struct{}), recorder: recorder{header: http.Header{}, code: http.StatusOK},
			stream: tt.stream, more: make(chan struct{}, 1), version: "1", cancel: func() {}}
		other := &watch{}
		g.watches = []*watch{w, other}
		for _, part := range tt.parts {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		rig.Same(t, name+": it rings", 1, len(g.wake))
		var got []seen
		version := "1"
		b := make([]byte, 1000)
		for w.held() != nil {
			first := w.held()
			ev := w.pass()
			rig.Same(t, name+": the next one passes", true, first == ev)
			got = append(got, seen{ev.kind, ev.object, ev.version, string(ev.bytes)})
			version = cmp.Or(ev.version, version)
			rig.Same(t, name+": the version that the program has", version, w.version)
			n, err := w.Read(b)
			rig.Same(t, name+": it reads", string(ev.bytes), string(b[:n]))
			rig.OK(t, err)
		}
		if diff := gocmp.Diff(tt.want, got, gocmp.AllowUnexported(seen{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		rig.OK(t, w.Close())
		w.end(io.EOF) // too late
		if n, err := w.Read(b); n != 0 || err != errClosed || !slices.Equal(g.watches, []*watch{other}) {
			t.Errorf("%s: closed: %d, %v, %d watches", name, n, err, len(g.watches))
		}
	}
	w := &watch{gate: newGate(nil), ready: make(chan struct{}), recorder: recorder{header: http.Header{}},
		more: make(chan struct{}, 1)}
	w.WriteHeader(http.StatusGone)
	<-w.ready
	rig.Must[int](t)(w.Write([]byte("no event")))
	b := make([]byte, 3)
	n, err := w.Read(b)
	if w.code != http.StatusGone || w.held() != nil || n != 3 || err != nil || string(b) != "no " {
		t.Errorf("a refusal is %d, of which %q, %v is read", w.code, b[:n], err)
	}
}
