package browser

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
	"github.com/go-lw/lw/internal/why"
	"github.com/go-lw/lw/lwdebug"
)

var update = flag.Bool("update", false, "make the pictures of the pages")

const hostile = `<script>document.title="hostile"</script><img src=x onerror="document.title='hostile'">` +
	"</td></table>"

type widget struct{ lw.Meta }

// A scene is a program with a board, and the server of its page.
type scene struct {
	*testing.T
	board   lw.Board
	url     string
	hangs   chan struct{} // what hangs waits for it
	release func()        // closes hangs; the end of the test does
}

// newScene returns a scene whose page is at url.
func newScene(t *testing.T) *scene {
	s := &scene{T: t, hangs: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.hangs) })
	server := httptest.NewServer(lwdebug.HandlerWithObjects(&s.board))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *scene) widgets(n int) *lw.Memory[*widget] {
	m := lw.NewMemory[*widget]()
	for i := range n {
		if _, err := m.Create(s.Context(), &widget{lw.Meta{Name: fmt.Sprint("w-", i)}}); err != nil {
			s.Fatal(err)
		}
	}
	return m
}

// run runs an informer until the test ends.
func (s *scene) run(name string, src lw.Source[*widget]) *lw.Informer[*widget] {
	inf := lw.NewInformer(src, &lw.Options{Name: name, Board: &s.board, OnError: func(error) {}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inf.Run(ctx)
	}()
	s.Cleanup(func() { s.release(); cancel(); <-ended })
	return inf
}

// A slowSource begins to answer when it is released.
type slowSource struct {
	*lw.Memory[*widget]
	release <-chan struct{}
}

func (s slowSource) List(ctx context.Context, o metav1.ListOptions, yield func(*widget, error) error) (metav1.ListMeta,
	error) {
	select {
	case <-s.release:
		return s.Memory.List(ctx, o, yield)
	case <-ctx.Done():
		return metav1.ListMeta{}, ctx.Err()
	}
}

func (s slowSource) Watch(ctx context.Context, o metav1.ListOptions, yield func(lw.WatchEvent[*widget]) error) error {
	select {
	case <-s.release:
		return s.Memory.Watch(ctx, o, yield)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// All widths and colours of the page of a program in which informers sync, fail, lag and hang,
// graphs hang, and controllers run in loops.
func TestPage(t *testing.T) {
	browser := start(t)
	s := newScene(t)
	s.run(hostile, s.widgets(3))
	s.run("syncing", slowSource{s.widgets(1), s.hangs})
	failing := s.widgets(1)
	failing.Fail(errors.New("no route to " + hostile + strings.Repeat("x", 300)))
	s.run("failing", failing)
	lagging := s.run("lagging", s.widgets(2000))
	lagging.AddHandler(lw.Handler[*widget]{Name: hostile, Add: func(*widget) { <-s.hangs }})
	g := lw.NewGraph(&lw.GraphOptions{Name: hostile, Board: &s.board, OnError: func(error) {}})
	lw.Derive(g, lw.Collection[*widget](lagging), func(w *widget) *widget { <-s.hangs; return w }, hostile)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); g.Run(ctx) }()
	t.Cleanup(func() { s.release(); cancel(); <-ended })
	t.Cleanup(why.Show(&s.board, hostile, func() why.Status {
		return why.Status{Runs: 40, Counts: []why.Count{{Collection: hostile, Type: why.Updated, Cause: uint8(lw.CauseWatch),
			Runs: 40, Fields: []string{hostile}}}, Loops: []why.Loop{
			{Key: hostile, Undo: true, Collection: "Widget", Object: lw.Key{Name: hostile}, Field: hostile,
				Managers: []string{hostile, "b"}, Rounds: 12, Last: time.Now()},
		}}
	}))
	if err := lagging.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	golden := goldenPage(t)
	for _, page := range []struct{ name, url string }{{"live", s.url}, {"golden", golden}, {"empty", newScene(t).url}} {
		for _, width := range []int{400, 1200} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s/%d/%s", page.name, width, scheme), func(t *testing.T) {
					p := open(t, browser, page.url, width, scheme)
					p.run(chromedp.Evaluate(`document.querySelectorAll("details").forEach(d => d.open = true)`, nil))
					if wide := value[int](p, `document.scrollingElement.scrollWidth`); wide > width {
						t.Errorf("the page is %d px wide: %s", wide,
							value[string](p, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && getComputedStyle(e.parentElement).overflowX === "visible").map(e => e.outerHTML.slice(0, 80)).slice(0, 6).join("\n")`))
					}
					if n := value[int](p, `document.querySelectorAll("script, img, [onerror]").length`); n > 0 {
						t.Errorf("%d elements that a name has made", n)
					}
					if page.name == "live" && !value[bool](p,
						fmt.Sprintf(`[...document.querySelectorAll("th.name")].some(e => e.textContent.trim() === %q)`, hostile)) {
						t.Error("the hostile name is not on the page as it is")
					}
					if title := value[string](p, `document.title`); title == "hostile" {
						t.Error("a name was run")
					}
					dark := value[bool](p, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).every(n => n < 128)`)
					if dark != (scheme == "dark") {
						t.Errorf("dark: %t", dark)
					}
					p.accessible()
					p.noErrors()
				})
			}
		}
	}
}

// accessible fails the test if axe-core finds something serious.
func (p *tab) accessible() {
	p.Helper()
	script, err := axe()
	if err != nil && os.Getenv("LW_BROWSER_REQUIRED") == "" {
		p.Logf("not looked at by axe-core: %v", err)
		return
	}
	mustOrSkip(p.T, err)
	p.run(chromedp.Evaluate(script, nil))
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	p.run(chromedp.Evaluate(`axe.run().then(r => r.violations)`, &found,
		func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.Errorf("axe-core: %s (%s): %s: %s", v.ID, v.Impact, v.Help, v.Nodes[0].HTML)
		}
	}
}

// While informers come, sync and fail, the page loads itself again: it stays where it is, and shows
// what is new.
func TestRefresh(t *testing.T) {
	browser := start(t)
	s := newScene(t)
	for i := range 60 {
		s.run(fmt.Sprintf("informer-%02d", i), s.widgets(1))
	}
	late := s.widgets(7)
	inf := s.run("late", slowSource{late, s.hangs})
	for _, width := range []int{400, 1200} {
		p := open(t, browser, s.url+"/?refresh=1", width, "light")
		loaded := value[float64](p, `scrollTo(0, 700), performance.timeOrigin`)
		for range 2 {
			p.until("the page loads again", fmt.Sprintf(`performance.timeOrigin > %v && document.readyState === "complete"`,
				loaded))
			loaded = value[float64](p, `performance.timeOrigin`)
			p.until("the page is where it was", `scrollY === 700`)
		}
		p.noErrors()
	}
	p := open(t, browser, s.url+"/?refresh=1", 1200, "light")
	const state = `[...document.querySelectorAll("tbody")].find(e => e.querySelector(".name")?.textContent === "late").className`
	p.until("it syncs", state+` === "syncing"`)
	s.release()
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.until("it is in step", state+` === "ok"`)
	late.Fail(errors.New("no route to host"))
	p.until("it fails", state+` === "retrying"`)
	p.noErrors()
}

// The page of 1,000 informers has one row for each, and a browser shows it again and again.
func TestManyInformers(t *testing.T) {
	browser := start(t)
	s := newScene(t)
	for i := range 1000 {
		s.run(fmt.Sprintf("informer-%04d", i), s.widgets(1))
	}
	for _, width := range []int{400, 1200} {
		p := open(t, browser, s.url+"/?refresh=2", width, "light")
		for range 2 {
			p.until("all rows are there", `document.querySelectorAll(".collections > tbody").length === 1000`)
			if n := value[int](p, `document.querySelectorAll("*").length`); n > 30_000 {
				t.Errorf("%d elements", n)
			}
			if size := value[int](p, `performance.getEntriesByType("navigation")[0].decodedBodySize`); size > 2<<20 {
				t.Errorf("%d bytes", size)
			}
			loaded := value[float64](p, `scrollTo(0, document.body.scrollHeight), performance.timeOrigin`)
			p.until("the page loads again", fmt.Sprintf(`performance.timeOrigin > %v && document.readyState === "complete"`,
				loaded))
		}
		p.noErrors()
	}
	p := open(t, browser, s.url, 1200, "light")
	p.run(chromedp.SetValue("[name=collection]", "informer-0999"), chromedp.SetValue("[name=key]", "w-0"),
		chromedp.Submit("form"))
	p.until("the object is shown", `document.body.textContent.includes('"name": "w-0"')`)
}

// goldenPage serves testdata/board.html, as lwdebug would.
func goldenPage(t *testing.T) string {
	t.Helper()
	file := filepath.Join("..", "..", "..", "lwdebug", "testdata", "board.html")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", board.Policy(false))
		http.ServeFile(w, r, file)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// The pictures of the pages, as -update makes them. Browsers draw letters each in its own way, so
// they are not compared.
func TestScreenshots(t *testing.T) {
	browser := start(t)
	p := open(t, browser, goldenPage(t), 1200, "light")
	var shot []byte
	p.run(chromedp.EmulateViewport(1200, 1350), chromedp.CaptureScreenshot(&shot))
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	if got := picture.Bounds().Size(); got != (image.Point{1200, 1350}) {
		t.Errorf("the picture has %v", got)
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, fewer(picture, 128)); err != nil {
		t.Fatal(err)
	}
	if out.Len() < 10_000 || out.Len() > 150_000 {
		t.Errorf("the picture has %d bytes", out.Len())
	}
	if *update {
		if err := os.WriteFile(filepath.Join("..", "..", "..", "docs", "board.png"), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fewer returns the picture with n of its most frequent colours, and the nearest of these for
// others.
func fewer(picture image.Image, n int) *image.Paletted {
	counts := map[color.RGBA]int{}
	b := picture.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	// Of shades that are much alike the most frequent one is enough.
	var palette color.Palette
	seen := map[color.RGBA]bool{}
	for _, c := range colours {
		if shade := (color.RGBA{c.R >> 4, c.G >> 4, c.B >> 4, 0}); !seen[shade] && len(palette) < n {
			palette, seen[shade] = append(palette, c), true
		}
	}
	nearest := map[color.RGBA]uint8{}
	for c := range counts {
		nearest[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			out.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return out
}
