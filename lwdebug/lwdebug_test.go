package lwdebug_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"expvar"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/lwtest"
)

var _ expvar.Var = lwdebug.Var(nil)

// askBoard asks b for target.
func askBoard(b *lw.Board, method, target string, accept ...string) *http.Response {
	return ask(lwdebug.Handler(b), method, target, accept...)
}

func ask(h http.Handler, method, target string, accept ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	r.Header["Accept"] = accept
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// body returns the body of r.
func body(t *testing.T, r *http.Response) string {
	t.Helper()
	return string(rig.Must[[]byte](t)(io.ReadAll(r.Body)))
}

// Which form is served, by the query and what the client accepts.
func TestBoardForms(t *testing.T) {
	const page, list = "text/html; charset=utf-8", "application/json"
	var b lw.Board
	for _, tt := range []struct {
		target string
		accept []string
		want   string
	}{
		{"/", nil, page},
		{"/debug/lw", []string{"*/*"}, page},
		{"/", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, page},
		{"/", []string{"application/json"}, list},
		{"/", []string{"text/plain", "application/json;q=0.9"}, list},
		{"/", []string{"application/json, text/html"}, page},
		{"/?format=json", []string{"text/html"}, list},
		{"/?format=html", []string{"application/json"}, page},
	} {
		r := askBoard(&b, "GET", tt.target, tt.accept...)
		if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || got != tt.want {
			t.Errorf("%s, accept %q: %d, %s, want %s", tt.target, tt.accept, r.StatusCode, got, tt.want)
		}
		text := body(t, r)
		if json.Valid([]byte(text)) != (tt.want == list) {
			t.Errorf("%s, accept %q: the body is %.50q", tt.target, tt.accept, text)
		}
	}
	if r := askBoard(&b, "GET", "/?format=yaml"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("format=yaml: %d", r.StatusCode)
	}
}

func TestBoardMethods(t *testing.T) {
	var b lw.Board
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if r := askBoard(&b, method, "/"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d, allow %q", method, r.StatusCode, r.Header.Get("Allow"))
		}
	}
	get, head := askBoard(&b, "GET", "/"), askBoard(&b, "HEAD", "/")
	get.Header.Del("Content-Length")
	head.Header.Del("Content-Length")
	rig.Same(t, "the headers of HEAD", get.Header, head.Header)
	if text := body(t, head); head.StatusCode != http.StatusOK || text != "" {
		t.Errorf("HEAD: %d, body %q", head.StatusCode, text)
	}
}

func TestBoardHeaders(t *testing.T) {
	var b lw.Board
	for _, target := range []string{"/", "/?format=json", "/?format=yaml"} {
		h := askBoard(&b, "GET", target).Header
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", target, name, got, want)
			}
		}
		policy := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "script") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %s", target, policy)
		}
	}
}

func TestBoardRefresh(t *testing.T) {
	var b lw.Board
	for query, want := range map[string]string{
		"": "", "?refresh=0": "", "?refresh=x": "", "?refresh=-1": "", "?refresh=5": "5", "?refresh=30": "30", "?refresh=99999999999": "",
		"?refresh=5;url=http://example.com": "",
	} {
		got := ""
		for _, e := range elements(t, body(t, askBoard(&b, "GET", "/"+query))) {
			if e.Name.Local == "meta" && value(e, "http-equiv") == "refresh" {
				got = value(e, "content")
			}
		}
		if got != want {
			t.Errorf("%s: every %q s, want %q", query, got, want)
		}
	}
}

// elements parses a page and returns its elements.
func elements(t *testing.T, page string) (all []xml.StartElement) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		rig.OK(t, err)
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

// value returns an attribute of e.
func value(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// The page of a hostile server runs nothing and loads nothing: it has only elements and attributes
// that cannot.
func TestBoardIsHarmless(t *testing.T) {
	known := strings.Fields("html head meta title style body header main section p h1 h2 ul li dl div dt dd span small strong time a svg path " +
		"table thead tbody tr th td details summary")
	attributes := strings.Fields("lang charset name content class datetime title href scope colspan data-label " +
		"width height viewBox aria-hidden fill fill-rule d open")
	synctest.Test(t, func(t *testing.T) {
		s := newBoardScene(t)
		s.hostile()
		synctest.Wait()
		page := body(t, askBoard(&s.board, "GET", "/"))
		for _, e := range elements(t, page) {
			if !slices.Contains(known, e.Name.Local) {
				t.Errorf("element %s", e.Name.Local)
			}
			for _, a := range e.Attr {
				if !slices.Contains(attributes, a.Name.Local) {
					t.Errorf("attribute %s of %s", a.Name.Local, e.Name.Local)
				}
				if a.Name.Local == "href" && !strings.HasPrefix(a.Value, "?") {
					t.Errorf("a link to %s", a.Value)
				}
			}
		}
		style := page[strings.Index(page, "<style>"):strings.Index(page, "</style>")]
		for _, no := range []string{"url(", "@import", "expression"} {
			if strings.Contains(style, no) {
				t.Errorf("the style sheet has %s", no)
			}
		}
		// What is hostile is there as text.
		for _, want := range []string{"&lt;script&gt;alert(&#34;1&#34;)&lt;/script&gt;", "&lt;img src=x onerror=alert(2)&gt;", "&lt;/p&gt;&lt;/main&gt;"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %s", want)
			}
		}
	})
}

// The JSON of Handler and Var are the same, and are what a program reads.
func TestBoardJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		if got := decoded(t, lwdebug.Var(&b).String()); len(got.Informers) != 0 || len(got.Graphs) != 0 {
			t.Errorf("an empty board: %+v", got)
		}
		stop := rig.Begin(t, lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &b, OnError: func(error) {}}))
		want := shape{Informers: []shapeInformer{{Name: "Widget", State: "ok", Phase: "watching", Synced: true, Version: "2", Objects: 1}}}
		r := askBoard(&b, "GET", "/?format=json")
		for name, text := range map[string]string{"Handler": body(t, r), "Var": lwdebug.Var(&b).String()} {
			rig.Same(t, name, want, decoded(t, text), cmpopts.EquateEmpty())
			if strings.Contains(text, "null") {
				t.Errorf("%s has a null: %s", name, text)
			}
		}
		if strings.Contains(lwdebug.Var(&b).String(), "\n") {
			t.Error("String has more than one line")
		}
		time.Sleep(1500 * time.Microsecond)
		if want, got := time.Now().UTC().Truncate(time.Millisecond), lwdebug.ReportOf(&b).Time; got != want {
			t.Errorf("it is of %v, want %v", got, want)
		}
		stop()
		if got := decoded(t, lwdebug.Var(&b).String()); len(got.Informers) != 0 {
			t.Errorf("after Run: %+v", got)
		}
	})
}

// The board says how large indexes are, of informers and of derived collections.
func TestBoardShowsIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		size := func(w *rig.Widget) int { return w.Size }
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1), rig.NewWidget("c", 2)), &lw.Options{Board: &b})
		lw.NewIndex(inf, size)
		lw.NewSortedIndex(inf, size)
		g := lw.NewGraph(&lw.GraphOptions{Board: &b})
		lw.NewIndex(lw.Derive(g, inf, func(w *rig.Widget) *rig.Widget { return w }, "same"), size)
		defer rig.Begin(t, inf)()
		defer rig.Begin(t, g)()
		text := lwdebug.Var(&b).String()
		page := body(t, askBoard(&b, "GET", "/?format=html"))
		for want, in := range map[string]string{
			`"indexes":[2,3]`: text, `"indexes":[2]`: text, "indexes of 2 and 3": page, "an index of 2": page,
		} {
			if !strings.Contains(in, want) {
				t.Errorf("there is no %q in %s", want, in)
			}
		}
	})
}

// The board says what fills a limit, by namespace, what was let go, and what that costs.
func TestBoardShowsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		s := lwtest.NewServer(t, lwtest.Resource{Plural: "maps", Kind: "Map"})
		maps := lwtest.Objects[*unstructured.Unstructured](s, "maps")
		for i := range 12 {
			noise := make([]byte, 4<<10)
			_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(noise)
			rig.Must[*unstructured.Unstructured](t)(maps.Create(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Map", "metadata": map[string]any{"namespace": fmt.Sprint("team-", i), "name": "m"},
				"data": map[string]any{"noise": base64.StdEncoding.EncodeToString(noise)},
			}}))
		}
		limit := &lw.PackLimit{Bytes: 24 << 10}
		inf := lw.NewInformer(lw.Pack(maps.Source(), lw.PackOptions{Limit: limit}), &lw.Options{Board: &b})
		defer rig.Begin(t, inf)()
		for range 2 {
			runtime.GC() // nobody has what the list has brought
		}
		for _, p := range inf.Store().List() {
			p.Open()
		}
		u := inf.Status().Packed
		if u.LetGo == 0 || u.Requests == 0 || len(u.Largest) != 12 {
			t.Fatalf("the status has %+v", u)
		}
		text, page := lwdebug.Var(&b).String(), body(t, askBoard(&b, "GET", "/?format=html"))
		var shares []string
		for _, s := range u.Largest[:10] {
			shares = append(shares, fmt.Sprintf(`{"namespace":%q,"objects":%d,"bytes":%d,"let_go":%d}`,
				s.Namespace, s.Objects, s.Bytes, s.LetGo))
		}
		for want, in := range map[string]string{
			fmt.Sprintf(`"packed":{"limit_bytes":24576,"bytes":%d,"let_go":%d,"requests":%d,"gone":0,"failed":0,`,
				u.Bytes, u.LetGo, u.Requests): text,
			`"namespaces":[` + strings.Join(shares, ",") + "]": text,
			`"total_namespaces":12`:                            text, " of a limit of 24 KiB.": page, fmt.Sprintf("%d objects let go, %d requests for such.", u.LetGo, u.Requests): page,
			"<dt>" + u.Largest[9].Namespace + "</dt>": page, "And 2 namespaces more.": page,
		} {
			if !strings.Contains(in, want) {
				t.Errorf("there is no %q in %s", want, in)
			}
		}
		if strings.Contains(page, u.Largest[10].Namespace+"</dt>") {
			t.Error("the page has more namespaces than the largest")
		}
	})
}

// A shape is a part of the JSON, as a program would read it.
type shape struct{ Informers, Graphs []shapeInformer }

type shapeInformer struct {
	Name, State, Phase string
	Synced             bool
	Version            string `json:"resource_version"`
	Objects            int
}

func decoded(t *testing.T, text string) (s shape) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return s
}

// Nothing of the user's that is blocked blocks the page: no handler, no function of a graph, and
// none that the informer itself calls.
func TestBoardBesideWhatIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		release := make(chan struct{})
		opts := func(name string) *lw.Options {
			return &lw.Options{Name: name, Board: &b, OnError: func(error) { <-release }}
		}
		block := func(w *rig.Widget) string { <-release; return w.Name }
		var stops []func()
		run := func(r interface{ Run(context.Context) error }) { stops = append(stops, rig.Begin(t, r)) }

		handled := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2)), opts("handler"))
		handled.AddHandler(lw.Handler[*rig.Widget]{Add: func(w *rig.Widget) { block(w) }})
		run(handled)
		indexed := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), opts("index"))
		lw.NewIndex(indexed, block)
		run(indexed)
		run(lw.NewInformer(lw.Transform(lw.NewMemory(rig.NewWidget("a", 1)), func(w *rig.Widget) (*rig.Widget, error) { block(w); return w, nil }), opts("transform")))
		refused := lw.NewMemory(rig.NewWidget("a", 1))
		refused.Fail(context.DeadlineExceeded)
		run(lw.NewInformer(refused, opts("error")))
		g := lw.NewGraph(&lw.GraphOptions{Name: "graph", Board: &b})
		d := lw.Derive(g, handled, rig.SumOf, "sums")
		lw.NewIndex(d, func(s *rig.Sum) string { <-release; return s.Name })
		run(g)
		g2 := lw.NewGraph(&lw.GraphOptions{Name: "graph 2", Board: &b})
		lw.Derive(g2, handled, func(w *rig.Widget) *rig.Sum { block(w); return rig.SumOf(w) }, "sums")
		run(g2)

		// If one of these waited, the bubble would report a deadlock.
		page := body(t, askBoard(&b, "GET", "/"))
		for _, name := range []string{"handler", "index", "transform", "error", "graph", "graph 2"} {
			if !strings.Contains(page, name) {
				t.Errorf("%s is not on the page", name)
			}
		}
		close(release)
		for _, stop := range stops {
			stop()
		}
	})
}

// A board names the function that a step is in, and says how old the content of an informer is.
func TestBoardShowsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		block := make(chan struct{})
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &b})
		g := lw.NewGraph(&lw.GraphOptions{Board: &b})
		lw.Derive(g, inf, func(w *rig.Widget) *rig.Sum { <-block; return rig.SumOf(w) }, "sums")
		began := time.Now()
		defer rig.Begin(t, inf)()
		defer rig.Begin(t, g)()
		rig.Sleep(time.Minute)
		r := lwdebug.ReportOf(&b)
		if got := r.Graphs[0]; got.Call != "function of sums at default/a" || !got.StepBegan.Equal(began) {
			t.Errorf("the call is %q, since %v; the step began at %v", got.Call, got.StepBegan, began)
		}
		if got := r.Graphs[0].State; got != "behind" {
			t.Errorf("the graph is %s", got)
		}
		if got := r.Informers[0]; !got.LastList.Equal(began) || !got.ListDue.IsZero() {
			t.Errorf("the last list was at %v, want %v; another is due since %v", got.LastList, began, got.ListDue)
		}
		close(block)
		synctest.Wait()
		if g := lwdebug.ReportOf(&b).Graphs[0]; g.Call != "" || g.State != "ok" {
			t.Errorf("after the step the call is %q, and the graph is %s", g.Call, g.State)
		}
	})
}

func TestMain(m *testing.M) { rig.Main(m) }

// A board has a page for a person, and JSON for a program.
func ExampleHandler() {
	server := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 2))
	mux := http.NewServeMux()

	var board lw.Board
	mux.Handle("/debug/lw", lwdebug.Handler(&board))
	widgets := lw.NewInformer(server, &lw.Options{Board: &board})
	graph := lw.NewGraph(&lw.GraphOptions{Board: &board})

	lw.Derive(graph, widgets, rig.SumOf, "notes")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go widgets.Run(ctx)
	go graph.Run(ctx)
	if err := graph.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}

	// What curl would show of the JSON.
	debug := httptest.NewServer(mux)
	defer debug.Close()
	response, err := http.Get(debug.URL + "/debug/lw?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		for _, field := range []string{`"name"`, `"state"`, `"objects"`} {
			if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, field) && !strings.HasSuffix(line, "[]") {
				fmt.Println(line)
			}
		}
	}

	// Output:
	// "name": "Widget",
	// "state": "ok",
	// "objects": 2,
	// "name": "graph",
	// "state": "ok",
	// "name": "notes",
	// "state": "ok",
	// "objects": 2,
}

// A readiness probe asks a group.
func ExampleHealthy() {
	server := lw.NewMemory(rig.NewWidget("a", 1))
	var group lw.Group
	group.Add(lw.NewInformer(server, nil))
	mux := http.NewServeMux()
	mux.Handle("/readyz", lwdebug.Healthy(&group, time.Minute))
	probe := func() {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	}

	probe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go group.Run(ctx)
	if err := group.WaitForSync(ctx); err != nil {
		fmt.Println(err)
		return
	}
	probe()

	// Output:
	// 503 lw: Widget: not synced, since Run has not been called
	// 200 ok
}
