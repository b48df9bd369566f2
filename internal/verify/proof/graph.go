package proof

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/verify/oracle"
)

// made is an object of every derived collection. A collection whose objects stand for parts has
// Part, and shows what the copy has; another one has Text.
type made struct {
	lw.Meta
	Part *Part
	Text string
}

// A watched is a graph over the copy, with a record of what it shows.
type watched struct {
	g      *lw.Graph
	inf    *lw.Informer[*Part]
	log    *oracle.Log
	copy   int
	views  []view
	told   []*oracle.GraphHandler // of views
	regs   []*lw.Registration     // of views
	cancel context.CancelFunc
	done   chan error

	// shadow is a member of outlives that is taken out and closed again and again, and another one
	// takes its place. Its objects have the keys of the first member, so it never shows.
	outlives *lw.Union[*made]
	shadowMu sync.Mutex // guards what follows
	shadow   *lw.Derived[*made]
	remove   func()

	computes chan struct{} // has room for one token: the graph is computing
	reads    atomic.Int64  // during steps
	reader   chan struct{} // closed when the reader during steps has ended
}

// A view is a collection of the graph.
type view struct {
	name string
	d    *lw.Derived[*made]
	of   func([]oracle.Item) string
}

const (
	witnessView = iota // each part as it is
	evenView           // the parts of even size
)

func sameMeta(p *Part) lw.Meta {
	return lw.Meta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion}
}

func evenItem(i oracle.Item) bool { return i.Content[len(i.Content)-1]%2 == 0 }

func itemGroup(i oracle.Item) string { return strings.Fields(i.Content)[0] }

// watch makes a graph over the present copy, and runs it.
func (w *world) watch() *watched {
	x := &watched{inf: w.inf, log: w.log, copy: w.copy, g: lw.NewGraph(nil)}
	x.computes, x.done, x.reader = make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	all := lw.Derive(x.g, lw.Collection[*Part](w.inf), func(p *Part) *made {
		select {
		case x.computes <- struct{}{}:
		default:
		}
		return &made{Meta: sameMeta(p), Part: p}
	}, "witness")
	even := lw.Derive(x.g, lw.Collection[*Part](w.inf), func(p *Part) *made {
		if p.Size%2 != 0 {
			return nil
		}
		return &made{Meta: sameMeta(p), Part: p}
	}, "even")
	type sum struct{ n, size int }
	groups := lw.GroupBy(x.g, lw.Collection[*made](all), func(m *made) lw.Key { return lw.Key{Name: m.Part.Group} },
		lw.Aggregate[*made, sum]{
			Add:    func(s sum, m *made) sum { return sum{s.n + 1, s.size + m.Part.Size} },
			Remove: func(s sum, m *made) sum { return sum{s.n - 1, s.size - m.Part.Size} },
		}, func(key lw.Key, s sum) *made {
			return &made{Meta: lw.Meta{Name: key.Name}, Text: fmt.Sprintf("%d of %d", s.n, s.size)}
		}, "groups")
	group := lw.SingleKey(func(m *made) string { return m.Part.Group })
	peers := lw.LeftJoin(x.g, lw.Collection[*made](all), lw.Collection[*made](even),
		lw.On[string, *made, *made]{Left: group, Right: group},
		func(l *made, rights []*made) *made {
			var names []string
			for _, r := range rights {
				names = append(names, r.Name+"@"+r.ResourceVersion)
			}
			return &made{Meta: lw.Meta{Namespace: l.Namespace, Name: l.Name}, Text: strings.Join(names, " ")}
		}, "peers")
	both := lw.NewUnion(x.g, lw.Collection[*made](groups), lw.Collection[*made](even))
	chain := all
	name := lw.SingleKey(func(m *made) string { return m.Name })
	for i := range 6 { // diamonds in a row
		chain = lw.Join(x.g, lw.Collection[*made](chain), lw.Collection[*made](chain), lw.On[string, *made, *made]{Left: name,
			Right: name},
			func(l, _ *made) *made { return l }, fmt.Sprint("chain ", i))
	}
	x.outlives = lw.NewUnion(x.g, lw.Collection[*made](all))
	x.recruit()
	x.views = []view{
		{"witness", all, showItems},
		{"even", even, func(items []oracle.Item) string {
			return showItems(slices.DeleteFunc(slices.Clone(items), func(i oracle.Item) bool { return !evenItem(i) }))
		}},
		{"groups", groups, wantGroups},
		{"peers", peers, wantPeers},
		{"union", both.Derived, func(items []oracle.Item) string {
			return joinLines(wantGroups(items),
				showItems(slices.DeleteFunc(slices.Clone(items), func(i oracle.Item) bool { return !evenItem(i) })))
		}},
	}
	x.views = append(x.views, view{"chain", chain, showItems}, view{"outlives", x.outlives.Derived, showItems})
	for _, v := range x.views {
		h := w.log.GraphHandlers("the handler of " + v.name)
		x.told = append(x.told, h)
		x.regs = append(x.regs, v.d.AddHandler(lw.Handler[*made]{
			Add:    func(m *made) { h.Calls(oracle.Add, nil, describeMade(m)) },
			Update: func(old, m *made) { h.Calls(oracle.Update, describeMade(old), describeMade(m)) },
			Delete: func(m *made) { h.Calls(oracle.Delete, describeMade(m), nil) },
		}))
	}
	ctx, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	go func() { x.done <- x.g.Run(ctx) }()
	go x.readDuringSteps(ctx)
	return x
}

// recruit makes a new shadow.
func (w *watched) recruit() {
	w.shadowMu.Lock()
	defer w.shadowMu.Unlock()
	w.shadow = lw.Derive(w.g, lw.Collection[*Part](w.inf), func(p *Part) *made {
		return &made{Meta: sameMeta(p), Text: "shadow"}
	}, "shadow")
	w.remove = w.outlives.Add(w.shadow)
}

// retire takes the shadow out, closes it, and makes another one.
func (w *watched) retire() {
	w.shadowMu.Lock()
	w.remove()
	if behind := w.shadow.Close(); len(behind) > 0 {
		panic(fmt.Sprintf("with a member that has left its union, Close has closed %v", behind))
	}
	w.shadowMu.Unlock()
	w.recruit()
}

// describeMade is what the oracle is told of an object in a handler's story.
func describeMade(m *made) *oracle.Item {
	content := showMade(m)
	if m.Part != nil {
		// After a restore, version and content may come again with another generation.
		content += fmt.Sprint(" of generation ", m.Part.Generation)
	}
	return &oracle.Item{Key: lw.KeyOf(m), UID: m.UID, Content: content, Ref: m}
}

func showMade(m *made) string {
	if m.Part != nil {
		return describe(m.Part).String()
	}
	return m.Name + ": " + m.Text
}

// joinLines is a content as text: sorted lines.
func joinLines(lines ...string) string {
	var all []string
	for _, l := range lines {
		if l != "" {
			all = append(all, strings.Split(l, "\n")...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func showItems(items []oracle.Item) string {
	var lines []string
	for _, i := range items {
		lines = append(lines, i.String())
	}
	return joinLines(lines...)
}

func wantGroups(items []oracle.Item) string {
	n, size := map[string]int{}, map[string]int{}
	for _, i := range items {
		var group string
		var s int
		if _, err := fmt.Sscanf(i.Content, "%s %d", &group, &s); err != nil {
			panic(err)
		}
		n[group]++
		size[group] += s
	}
	var lines []string
	for group := range n {
		lines = append(lines, fmt.Sprintf("%s: %d of %d", group, n[group], size[group]))
	}
	return joinLines(lines...)
}

func wantPeers(items []oracle.Item) string {
	var lines []string
	for _, l := range items {
		var names []string
		for _, r := range items {
			if evenItem(r) && itemGroup(l) == itemGroup(r) {
				names = append(names, fmt.Sprintf("%s@%d", r.Key.Name, r.Version))
			}
		}
		slices.Sort(names)
		lines = append(lines, l.Key.Name+": "+strings.Join(names, " "))
	}
	return joinLines(lines...)
}

// read records one snapshot of the graph.
func (w *watched) read(session string, rest bool) {
	r := oracle.GraphRead{Session: session, Copy: w.copy, Call: w.log.Tick(), Rest: rest}
	snap := w.g.Snapshot()
	r.Version = snap.ResourceVersion(w.inf)
	for i, v := range w.views {
		content := v.d.At(snap)
		var lines []string
		for m := range content.All() {
			lines = append(lines, showMade(m))
			if i == witnessView {
				r.Items = append(r.Items, *describe(m.Part))
			}
		}
		r.Views = append(r.Views, oracle.View{Name: v.name, Step: content.ResourceVersion(),
			Shows: joinLines(lines...), Of: v.of})
	}
	if rest {
		r.Want, r.WantVersion = describeAll(w.inf.Store().List()), w.inf.Store().ResourceVersion()
	}
	w.log.GraphReads(r)
}

// gets records two Gets of two collections in a row.
func (w *watched) gets(name string) {
	key := partKey(name)
	all, even := w.views[witnessView].d.Store(), w.views[evenView].d.Store()
	p := oracle.GraphPair{Before: all.ResourceVersion(), Of: evenItem}
	if m, ok := all.Get(key); ok {
		p.First = describe(m.Part)
	}
	if m, ok := even.Get(key); ok {
		p.Second = describe(m.Part)
	}
	p.After = even.ResourceVersion()
	w.log.GraphPairs(p)
}

// readDuringSteps reads whenever the graph computes, so that reads meet commits.
func (w *watched) readDuringSteps(ctx context.Context) {
	defer close(w.reader)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.computes:
		}
		reads := w.reads.Add(1)
		if reads > 60 {
			continue
		}
		if reads%5 == 0 {
			w.retire()
		}
		for range 3 {
			w.read(fmt.Sprintf("a reader during steps of copy %d", w.copy), false)
			for _, name := range []string{"a", "b", "c"} {
				w.gets(name)
			}
		}
	}
}

// look reads all that the graph shows.
func (w *watched) look(rest bool) {
	w.read(fmt.Sprintf("the main session of the graph of copy %d", w.copy), rest)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		w.gets(name)
	}
}

// quiet records what the collections have when all has been told.
func (w *watched) quiet() {
	for i, v := range w.views {
		var items []oracle.Item
		for m := range v.d.Store().All() {
			items = append(items, *describeMade(m))
		}
		w.told[i].Quiets(items)
	}
	w.look(true)
}

// stop ends the graph, and checks that it ends.
func (w *watched) stop() {
	w.cancel()
	select {
	case err := <-w.done:
		if err != nil {
			panic(fmt.Sprintf("Graph.Run: %v", err))
		}
	case <-time.After(time.Hour):
		panic("waited for an hour for Graph.Run to return")
	}
	within(w.reader, "the reader during steps to end")
	for _, reg := range w.regs {
		within(reg.Done(), "a handler of the graph to be done")
	}
}

// doGraphWait writes, and waits in the background until the graph shows it, and for its sync.
func (w *world) doGraphWait(rt *rapid.T) {
	name, size, limit := drawPart(rt), drawPartSize(rt),
		rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(rt, "limit")
	if w.graph == nil {
		return
	}
	w.graph.retire()
	w.put(name, "x", size)
	version, epoch, x := w.server.line().Version(), w.log.Epoch(), w.graph
	wait := func(o oracle.Wait, f func(ctx context.Context) error) {
		w.waiting.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			at := time.Now()
			o.Copy, o.Graph, o.Call, o.Limit = x.copy, true, x.log.Tick(), limit
			o.Err = f(ctx)
			o.Ret, o.Took, o.CopySynced = x.log.Tick(), time.Since(at), x.inf.Status().Synced
			x.log.Waits(o)
			if o.Err == nil {
				x.read(fmt.Sprintf("a reader after %s, from moment %d", o.Who, o.Call), false)
			}
		})
	}
	wait(oracle.Wait{Who: "a writer, for the graph", Version: version, Epoch: epoch}, func(ctx context.Context) error {
		return x.g.WaitForResourceVersion(ctx, x.inf, listopts.FormatVersion(version))
	})
	wait(oracle.Wait{Who: "the graph's sync", Sync: true}, x.g.WaitForSync)
}
