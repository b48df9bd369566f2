package lwdebug_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/internal/why"
	"github.com/go-lw/lw/lwdebug"
)

const hostile = `<script>alert("1")</script>`

// A boardScene is a program in which much is wrong. It runs in a bubble, so all its times and
// numbers are the same whenever it runs.
type boardScene struct {
	t     *testing.T
	board lw.Board
}

// newBoardScene runs the program for some minutes, up to a moment in 2026.
func newBoardScene(t *testing.T) *boardScene {
	t.Helper()
	s := &boardScene{t: t}
	time.Sleep(time.Until(time.Date(2026, 11, 22, 9, 27, 0, 0, time.UTC)))

	pods, podServer := s.memory("Pod", "shop", "cart", 1200)
	pods.AddHandler(lw.Handler[*rig.Widget]{Name: "deployments", Add: func(*rig.Widget) {},
		Update: func(_, _ *rig.Widget) {}})
	pods.AddHandler(lw.Handler[*rig.Widget]{Name: "audit", Update: func(_, w *rig.Widget) {
		time.Sleep(3 * time.Millisecond)
		if w.Size == 100 {
			panic("no audit log")
		}
	}})
	services, serviceServer := s.memory("Service", "shop", "svc", 140)
	nodes, nodeServer := s.memory("Node", "", "node", 24)
	_, secretServer := s.memory("Secret", "shop", "token", 318)
	jobs, jobServer := s.memory("Job", "batch", "report", 2300)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	jobs.AddHandler(lw.Handler[*rig.Widget]{Name: "mailer", Update: func(_, _ *rig.Widget) { <-release }})
	jobs.AddHandler(lw.Handler[*rig.Widget]{Name: "queue", Update: func(_, _ *rig.Widget) {}})
	s.setAside()
	s.reflector()
	s.hanging()
	s.controllers()
	synctest.Wait()
	s.graph(pods, services, nodes)
	synctest.Wait()

	for range 6 {
		touch(t, podServer, 200)
		touch(t, serviceServer, 5)
		touch(t, nodeServer, 24)
		touch(t, jobServer, 500)
		rig.Sleep(10 * time.Second)
	}
	secretServer.Fail(errors.New("HTTP: https://10.96.0.1/api/v1/secrets: dial tcp 10.96.0.1:443: connect: connection refused"))
	rig.Sleep(3 * time.Minute)
	touch(t, jobServer, 2300)
	s.forbidden()
	rig.Sleep(9 * time.Second)
	touch(t, podServer, 3)
	synctest.Wait()
	rig.Sleep(412 * time.Millisecond)
	return s
}

// report returns what the board shows, of a process that is the same whenever it runs.
func (s *boardScene) report() *board.Report {
	r := lwdebug.ReportOf(&s.board)
	r.Process = board.Process{
		Program: "shop-controller", Host: "shop-controller-7c9d8f6b5-x2lqp", Go: "go1.26.0", Goroutines: 63,
		HeapLive: 58 << 20, Heap: 81 << 20, Memory: 134 << 20, Limit: 512 << 20,
	}
	for i := range r.Graphs {
		r.Graphs[i].BusySeconds = board.Seconds(1240 * time.Millisecond) // steps take no time in a bubble
	}
	return r
}

// controllers are two queues, as package clientgo puts them on the board.
func (s *boardScene) controllers() {
	since := time.Now()
	s.t.Cleanup(why.Show(&s.board, "carts", func() why.Status {
		return why.Status{Runs: 4812, Waiting: 3, Busy: 2, Counts: []why.Count{
			{Collection: "Pod", Type: why.Updated, Cause: uint8(lw.CauseWatch), Runs: 3106,
				Fields: []string{"status.conditions[Ready].status", "status.phase"}},
			{Collection: "Pod", Type: why.Added, Cause: uint8(lw.CauseInitial), Runs: 1200},
			{Requeue: why.Failed, Runs: 506},
		}}
	}))
	s.t.Cleanup(why.Show(&s.board, "promises", func() why.Status {
		return why.Status{Runs: 96, Counts: []why.Count{{Collection: "Secret", Type: why.Updated, Cause: uint8(lw.CauseTold),
			Runs: 96, Fields: []string{"metadata.labels." + hostile}}}, Loops: []why.Loop{
			{Key: "shop/token-0001", Undo: true, Collection: "Secret", Object: lw.Key{Namespace: "shop", Name: "token-0001"},
				Field: "metadata.labels." + hostile, Managers: []string{"promise", "resource"}, Rounds: 42, Since: since,
				Last: time.Now()},
			{Key: "shop/token-0002", Collection: "Secret", Object: lw.Key{Namespace: "shop", Name: "token-0002"},
				Field: "status.lastSync", Managers: []string{"promise"}, Rounds: 11, Since: since, Last: time.Now()},
		}}
	}))
}

func (s *boardScene) options(name string) *lw.Options {
	return &lw.Options{
		Name: name, Board: &s.board, List: lw.ListWhole, WatchTimeout: time.Hour, OnError: func(error) {},
		OnPanic: func(*lw.Panic) {},
		Backoff: func(failures int) time.Duration { return min(time.Second<<failures, 20*time.Second) },
	}
}

// memory runs an informer of so many objects.
func (s *boardScene) memory(name, namespace, object string, n int) (*lw.Informer[*rig.Widget],
	*lw.Memory[*rig.Widget]) {
	m := lw.NewMemory[*rig.Widget]()
	for i := range n {
		m.Create(context.Background(),
			&rig.Widget{Meta: lw.Meta{Namespace: namespace, Name: fmt.Sprintf("%s-%04d", object, i)}, Size: i})
	}
	return s.run(name, m), m
}

// run runs an informer of src.
func (s *boardScene) run(name string, src lw.Source[*rig.Widget]) *lw.Informer[*rig.Widget] {
	inf := lw.NewInformer(src, s.options(name))
	rig.Start(s.t, inf)
	return inf
}

// touch updates the first n objects of m, one after the other: so what a graph takes in one step
// does not depend on the scheduler.
func touch(t *testing.T, m *lw.Memory[*rig.Widget], n int) {
	for w := range m.All() {
		if n--; n < 0 {
			return
		}
		w.Size++
		rig.Must[*rig.Widget](t)(m.Update(t.Context(), w))
		synctest.Wait()
	}
}

// setAside runs an informer that cannot use some objects.
func (s *boardScene) setAside() {
	m := lw.NewMemory[*rig.Widget]()
	for i := range 61 {
		size := i
		if i%8 == 7 {
			size = -i
		}
		m.Create(context.Background(), &rig.Widget{Meta: lw.Meta{Namespace: "shop", Name: fmt.Sprintf("site-%02d", i)},
			Size: size})
	}
	s.run("Website", lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
		if w.Size < 0 {
			return nil, fmt.Errorf("spec.replicas: invalid value %d: must not be negative", w.Size)
		}
		return w, nil
	}))
}

// hostile runs an informer in which every name and text is markup. It is not on the page of the
// screenshot.
func (s *boardScene) hostile() {
	m := lw.NewMemory(&rig.Widget{Meta: lw.Meta{Namespace: `"><img src=x onerror=alert(2)>`, Name: hostile}},
		rig.NewWidget("a", 1))
	inf := s.run(hostile, lw.Transform(m, func(w *rig.Widget) (*rig.Widget, error) {
		if w.Name == hostile {
			return nil, errors.New("</p></main>" + hostile + "\u202e\x00")
		}
		return w, nil
	}))
	inf.AddHandler(lw.Handler[*rig.Widget]{Name: "</table>" + hostile, Add: func(*rig.Widget) {}})
}

func (s *boardScene) reflector() {
	m := lw.NewMemory(rig.NewWidget("leader", 1))
	rig.Start(s.t, lw.NewReflector(m, lw.Sink[*rig.Widget](lw.NewIndexer[*rig.Widget]()), s.options("Lease")))
}

// A silent server answers no request.
type silent struct{}

func (silent) List(ctx context.Context, _ metav1.ListOptions, _ func(*rig.Widget, error) error) (metav1.ListMeta,
	error) {
	<-ctx.Done()
	return metav1.ListMeta{}, ctx.Err()
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions, _ func(lw.WatchEvent[*rig.Widget]) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *boardScene) hanging() { s.run("EndpointSlice", silent{}) }

// forbidden runs an informer that was refused a moment ago.
func (s *boardScene) forbidden() {
	m := lw.NewMemory(rig.NewWidget("a", 1))
	m.Fail(apierrors.NewForbidden(schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}, "",
		errors.New(`User "system:serviceaccount:shop:controller" cannot list resource "ingresses"`)))
	s.run("Ingress", m)
}

// graph runs a graph with conflicts, with an object at which a function panics, and with handlers.
func (s *boardScene) graph(pods, services, nodes lw.Collection[*rig.Widget]) {
	g := lw.NewGraph(&lw.GraphOptions{Name: "endpoints", Board: &s.board, OnError: func(error) {},
		OnPanic: func(*lw.Panic) {}})
	ready := lw.Derive(g, pods, func(w *rig.Widget) *rig.Sum {
		if w.Size%7 == 0 {
			return nil
		}
		return rig.SumOf(w)
	}, "ready pods")
	perService := lw.LeftJoin(g, services, ready, lw.On[int, *rig.Widget, *rig.Sum]{
		Left:  lw.SingleKey(func(w *rig.Widget) int { return w.Size % 140 }),
		Right: lw.SingleKey(func(s *rig.Sum) int { return s.Sum % 140 }),
	}, func(w *rig.Widget, rights []*rig.Sum) *rig.Sum {
		return &rig.Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: w.Name}, Sum: len(rights)}
	}, "endpoints by service")
	perService.AddHandler(lw.Handler[*rig.Sum]{Name: "proxy", Update: func(_, _ *rig.Sum) {}})
	lw.Derive(g, services, func(w *rig.Widget) *rig.Sum {
		return &rig.Sum{Meta: lw.Meta{Namespace: w.Namespace, Name: fmt.Sprint("10.96.14.", min(w.Size%140, 137))}}
	}, "services by address")
	lw.Derive(g, nodes, func(w *rig.Widget) *rig.Sum {
		if w.Name == "node-0017" {
			panic("runtime error: index out of range [2] with length 2")
		}
		return rig.SumOf(w)
	}, "nodes by zone")
	lw.GroupBy(g, ready, func(s *rig.Sum) lw.Key { return lw.Key{Name: s.Namespace} }, rig.AddedUp, rig.TotalOf,
		"load by namespace")
	rig.Start(s.t, g)
}

var rewriteBoard = flag.Bool("update", false, "write testdata/board.html and testdata/board.json")

// mustBeGolden compares got with a file of testdata, or writes that with -update.
func mustBeGolden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *rewriteBoard {
		rig.OK(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := rig.Must[[]byte](t)(os.ReadFile(file))
	rig.Same(t, file, string(want), got)
}

// The JSON and the page of a program in which much is wrong. The screenshot in docs is of this
// page.
func TestBoardGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBoardScene(t).report()
		out := rig.Must[[]byte](t)(r.JSON(true))
		mustBeGolden(t, "board.json", string(out)+"\n")
		mustBeGolden(t, "board.html", r.Page(0, false))
	})
}

// TestBoardBehind: the board says how late the server's writes come, as long as one came lately.
func TestBoardBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b lw.Board
		inf := lw.NewInformer(lw.NewMemory(rig.NewWidget("a", 1)), &lw.Options{Board: &b, OnError: func(error) {}})
		rig.Start(t, inf)
		synctest.Wait()
		if got := lwdebug.ReportOf(&b).Informers[0].Behind; got != nil {
			t.Errorf("before it was measured: %v", got)
		}
		rig.Must[string](t)(inf.CatchUp(t.Context()))
		none := board.Seconds(0)
		for _, want := range []board.Delay{{By: "asked", Half: &none, Most: &none, Count: 1}, {By: "asked", Count: 1}} {
			rig.Same(t, "", []board.Delay{want}, lwdebug.ReportOf(&b).Informers[0].Behind)
			page := body(t, askBoard(&b, "GET", "/"))
			if got := strings.Contains(page, "asked writes half within 0 s and 99 % within 0 s"); got != (want.Half != nil) {
				t.Errorf("the page says so: %v, %+v", got, want)
			}
			rig.Sleep(11 * time.Minute)
		}
	})
}

// boardProgram follows a collection and serves HTTP. Its informer is in an interface, so the linker
// keeps the methods of every type that an informer refers to. The comments are for its variants.
const boardProgram = `package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-lw/lw"
	//page	"github.com/go-lw/lw/lwdebug"
)

type Pod struct {
	lw.Meta ` + "`json:\"metadata\"`" + `
}

func main() {
	opts := &lw.Options{Name: "pods"}
	//board	var board lw.Board
	//board	opts.Board = &board
	//page	http.Handle("/debug/lw", lwdebug.Handler(&board))
	inf := lw.NewInformer(&lw.HTTP[*Pod]{URL: "http://localhost/api/v1/pods"}, opts)
	g := lw.NewGraph(nil)
	lw.Derive(g, inf, func(p *Pod) *Pod { return p })
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, g, inf) })
	go http.ListenAndServe(":8080", nil)
	for _, r := range []interface{ Run(context.Context) error }{inf, g} {
		fmt.Println(r.Run(context.Background()))
	}
}
`

// Only a program that serves a board has its page in it.
func TestProgramWithoutABoard(t *testing.T) {
	for _, tt := range []struct {
		name string
		with []string
		want bool
	}{
		{"a board that is not served", []string{"board"}, false},
		{"a board that is served", []string{"board", "page"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := boardProgram
			for _, variant := range tt.with {
				source = strings.ReplaceAll(source, "//"+variant, "")
			}
			dir := t.TempDir()
			file, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
			rig.OK(t, os.WriteFile(file, []byte(source), 0o644))
			if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", program, file).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			symbols := rig.Must[[]byte](t)(exec.Command("go", "tool", "nm", program).Output())
			for _, symbol := range []string{"lw/lwdebug.page.ServeHTTP", "lw/internal/board.(*Report).Page",
				"lw/internal/board/markup.(*Writer).Text"} {
				if got := strings.Contains(string(symbols), symbol); got != tt.want {
					t.Errorf("%s in the program: %v, want %v", symbol, got, tt.want)
				}
			}
			// This one is in each of them: the list of symbols is what it seems to be.
			if !strings.Contains(string(symbols), "lw.(*Graph).Run") {
				t.Error("lw.(*Graph).Run is not in the program")
			}
		})
	}
}
