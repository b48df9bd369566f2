package proof

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve"
)

// A Part is the object of the proofs.
type Part struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Group             string `json:"group"`
	Size              int    `json:"size"`
}

func partKey(name string) lw.Key { return lw.Key{Namespace: "default", Name: name} }

func newPart(name, group string, size int) *Part {
	p := &Part{Group: group, Size: size}
	p.Namespace, p.Name = "default", name
	p.Labels = map[string]string{"group": group}
	return p
}

// sizeBroken is a size that the server over HTTP writes as a string, which does not fit a Part.
const sizeBroken = -1

// A partServer has Parts, and gives them to informers.
type partServer interface {
	line() *history.Line
	// put creates or replaces p, and returns its UID and version. It returns the version before
	// where it changed nothing.
	put(p *Part) (types.UID, uint64)
	remove(key lw.Key) (version uint64)
	source() lw.Source[*Part]
	// down refuses all requests until clear.
	down()
	// clear takes back the faults that have not happened yet.
	clear()
	close()
}

// direct is a server whose answers are function calls.
type direct struct {
	lines *history.Line
	parts *history.Collection[*Part]

	mu    sync.Mutex
	next  []*directFault           // guarded by mu, as all below
	pokes map[chan directPoke]bool // of the open watches
	amid  time.Duration            // between two events of one version
}

// A directFault is what happens to a request to come.
type directFault struct {
	watch, list, stream bool // which
	page                bool // only to a page after the first
	times               int  // so often; 0: once
	before              func()
	err                 error
	hang                bool
	slow                time.Duration // before each event
	lag                 uint64        // a list, or the initial events, from a state so many versions ago
	version             *string
	// mangle stands between the answer and the informer: it sees each event, or each item of a list
	// as an ADDED event, and yields what it likes.
	mangle func(n int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error
}

// A directPoke happens to an open watch.
type directPoke struct {
	err   error // ends it; io.EOF: cleanly
	stall bool
	event *lw.WatchEvent[*Part]
}

func newDirect() *direct {
	l := history.NewLine()
	same := func(old, new *history.Object[*Part]) bool {
		return old.Value.Size == new.Value.Size && old.Value.Group == new.Value.Group
	}
	return &direct{
		lines: l,
		parts: history.NewCollection(l, history.Options[*Part]{Resource: schema.GroupResource{Resource: "parts"},
			Same: same}),
		pokes: map[chan directPoke]bool{},
	}
}

func (d *direct) line() *history.Line      { return d.lines }
func (d *direct) source() lw.Source[*Part] { return d }
func (d *direct) close()                   {}

func (d *direct) put(p *Part) (types.UID, uint64) {
	in := history.Object[*Part]{Key: lw.KeyOf(p), Labels: p.Labels, Value: p}
	write := d.parts.Create
	if _, err := d.parts.Get(in.Key); err == nil {
		write = func(in history.Object[*Part]) (*history.Object[*Part], error) {
			return d.parts.Update(in, history.Preconditions{})
		}
	}
	out, err := write(in)
	must(err)
	return out.UID, out.Version
}

func (d *direct) remove(key lw.Key) uint64 {
	_, version, err := d.parts.Delete(key, history.Preconditions{})
	must(err)
	return version
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (d *direct) inject(f directFault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = append(d.next, &f)
}

func (d *direct) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next = nil
}

func (d *direct) down() {
	d.inject(directFault{list: true, watch: true, stream: true, times: math.MaxInt, err: errRefused()})
}

// poke does something to each open watch.
func (d *direct) poke(p directPoke) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.pokes {
		select {
		case c <- p:
		default: // it has enough to do
		}
	}
}

// take returns what happens to a request.
func (d *direct) take(opts metav1.ListOptions, watching bool) directFault {
	d.mu.Lock()
	defer d.mu.Unlock()
	stream := opts.SendInitialEvents != nil
	for i, f := range d.next {
		if watching && !stream && f.watch || stream && f.stream || !watching && f.list && (!f.page || opts.Continue != "") {
			if f.times--; f.times <= 0 {
				d.next = append(d.next[:i:i], d.next[i+1:]...)
			}
			return *f
		}
	}
	return directFault{}
}

func (d *direct) List(ctx context.Context, opts metav1.ListOptions, yield func(*Part, error) error) (metav1.ListMeta,
	error) {
	f := d.take(opts, false)
	if err := f.begin(ctx); err != nil {
		return metav1.ListMeta{}, err
	}
	if f.lag > 0 && opts.Continue == "" {
		opts.ResourceVersion, opts.ResourceVersionMatch = d.ago(f.lag), metav1.ResourceVersionMatchExact
	}
	page, err := d.parts.List("", opts)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	give := func(ev lw.WatchEvent[*Part]) error { return yield(ev.Object, ev.Err) }
	for i, obj := range page.Items {
		if err := f.give(i, lw.WatchEvent[*Part]{Type: watch.Added, Object: handOut(obj, obj.Version)}, give); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	out := metav1.ListMeta{ResourceVersion: listopts.FormatVersion(page.Version), Continue: page.Continue}
	if f.version != nil {
		out.ResourceVersion = *f.version
	}
	return out, nil
}

func (d *direct) Hints() lw.SourceHints {
	return lw.SourceHints{StillHas: func(ctx context.Context, obj lw.Meta, version string) (bool, error) {
		return lw.StillHasByList(ctx, d, obj, version)
	}}
}

// ago is the version so many before the last, or the oldest that is kept.
func (d *direct) ago(n uint64) string {
	now := d.lines.Version()
	return listopts.FormatVersion(max(now-min(n, now), d.parts.Oldest()))
}

func (f *directFault) begin(ctx context.Context) error {
	if f.before != nil {
		f.before()
	}
	if f.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *directFault) give(n int, ev lw.WatchEvent[*Part], yield func(lw.WatchEvent[*Part]) error) error {
	if f.mangle == nil {
		return yield(ev)
	}
	return f.mangle(n, ev, yield)
}

func handOut(obj *history.Object[*Part], version uint64) *Part {
	p := *obj.Value
	p.UID, p.ResourceVersion = obj.UID, listopts.FormatVersion(version)
	return &p
}

// errStall makes a watch that says nothing any more.
var errStall = errors.New("half-open")

func (d *direct) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[*Part]) error) error {
	f := d.take(opts, true)
	if err := f.begin(ctx); err == io.EOF {
		return nil
	} else if err != nil {
		return err
	}
	w, err := d.parts.Watch("", opts)
	if err != nil {
		return err
	}
	pokes := make(chan directPoke, 8)
	d.mu.Lock()
	d.pokes[pokes] = true
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.pokes, pokes)
	}()
	// Two goroutines only so that a poke can end a Next that waits.
	events := make(chan lw.WatchEvent[*Part])
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	reader.Go(func() { ended <- d.read(ctx, w, events) })
	// at is the informer's position; a streamed list has none until its end.
	at, listed := opts.ResourceVersion, opts.SendInitialEvents == nil
	informer := yield
	open := false // more events of the last one's version follow
	yield = func(ev lw.WatchEvent[*Part]) error {
		open = ev.Open
		if listed = listed || ev.InitialEventsEnd; listed {
			at = ev.ResourceVersion
		}
		return informer(ev)
	}
	for n := 0; ; n++ {
		select {
		case ev := <-events:
			if f.slow > 0 {
				select {
				case <-time.After(f.slow):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if err := f.give(n, ev, yield); err == io.EOF {
				return nil
			} else if err == errStall {
				<-ctx.Done()
				return ctx.Err()
			} else if err != nil {
				return err
			}
		case p := <-pokes:
			switch {
			case p.stall:
				<-ctx.Done()
				return ctx.Err()
			case p.event != nil && open: // no source has an event for what stands amid a version
			case p.event != nil && p.event.Object != nil && (!listed || at == p.event.ResourceVersion):
				// No client can tell this event of before from one of the list that it waits for,
				// or from one of the very version of its list that it has not seen.
			case p.event != nil:
				// Each watch gets an object of its own: a Transform may change it in place.
				if err := informer(copied(*p.event)); err != nil {
					return err
				}
			case p.err == io.EOF:
				return nil
			default:
				return p.err
			}
		case err := <-ended:
			return err
		}
	}
}

func (d *direct) read(ctx context.Context, w *history.Watch[*Part], events chan<- lw.WatchEvent[*Part]) error {
	for {
		ev, err := w.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		out := lw.WatchEvent[*Part]{
			Type: ev.Type, ResourceVersion: listopts.FormatVersion(ev.Version), InitialEventsEnd: ev.InitialEventsEnd,
			Open: ev.Open,
		}
		if ev.Type != watch.Bookmark {
			out.Object = handOut(ev.Object, ev.Version)
		}
		select {
		case events <- out:
		case <-ctx.Done():
			return ctx.Err()
		}
		if out.Open {
			d.waitAmid(ctx)
		}
	}
}

// A Transport is how the histories reach a server behind HTTP. The zero value is HTTP itself, over
// connections in memory.
type Transport struct {
	// Wrap returns what stands before the server on its connections; nil: nothing.
	Wrap func(http.Handler) http.Handler
	// Client makes the informer's client of one whose Transport is an *http.Transport that dials in
	// memory; nil: it is the informer's.
	Client func(*http.Client) *http.Client
	// Standard lets apimachinery's decoders make the objects.
	Standard bool
	// Packs lets the objects come packed, and larger. The informer has what is decoded of them.
	Packs bool
	// Accept is the Accept header of the informer's requests; "": the default of lw.HTTP.
	Accept string
	// Faults happen beside those of the server, each with the same probability.
	Faults []Fault
	// Clear takes back the Faults that have not happened yet; nil if there are none.
	Clear func()
	// Relays is how many relays are in a row between server and informer. The faults are those of
	// the server, and of the relays themselves.
	Relays int
	// Roams says that the informer sends each of its requests to another of the server and its
	// relays.
	Roams bool
	// History bounds what each relay keeps.
	History serve.HistoryLimits
}

// A Fault is what goes wrong on the way between server and informer.
type Fault struct {
	ID, Name string
	// Inject lets it happen, soon if n is 1, and later or more often if n is larger.
	Inject func(n int)
}

func (t Transport) faults() (out []proofFault) {
	if t.Relays > 0 {
		out = append(out, relayFaults...)
	}
	if t.Roams {
		// As often as three others: a move is what these histories are about.
		out = append(out, slices.Repeat(roamFaults, 3)...)
	}
	for _, f := range t.Faults {
		out = append(out, proofFault{id: f.ID, name: f.Name, web: func(_ *world, _ *apiserver.Server, n int) { f.Inject(n) }})
	}
	return out
}

// web is a server behind HTTP, on pipes in the bubble.
type web struct {
	server *apiserver.Server
	url    string // of the parts, for the informer
	client *http.Client
	src    *lw.HTTP[*Part]
	over   Transport
	relays []*relay // from the server on
	roamer *roamer  // nil: the informer stays with the last relay
}

func newWeb(over Transport) *web {
	s := apiserver.New(apiserver.Options{
		Resources: []apiserver.Resource{{Group: "lw.test", Resource: "parts", Kind: "Part", Custom: true}}, Wrap: over.Wrap,
	})
	client := s.Client()
	if over.Client != nil {
		client = over.Client(client)
	}
	w := &web{server: s, over: over}
	url := s.URL("parts", "")
	everyone := []*http.Client{client}
	for range over.Relays {
		r := newRelay(url, client, over.History)
		w.relays = append(w.relays, r)
		url, client = "http://relay"+partsPath, r.front.Client()
		everyone = append(everyone, client)
	}
	if over.Roams {
		w.roamer = &roamer{servers: everyone}
		client = &http.Client{Transport: w.roamer}
	}
	w.url, w.client = url, client
	w.src = w.http()
	return w
}

func (w *web) http() *lw.HTTP[*Part] {
	return &lw.HTTP[*Part]{URL: w.url, Client: w.client, Accept: w.over.Accept, Standard: w.over.Standard}
}

func (w *web) line() *history.Line          { return w.server.Line }
func (w *web) parts() *apiserver.Collection { return w.server.Collection("parts") }
func (w *web) down()                        { w.server.SetDown(true) }

func (w *web) source() lw.Source[*Part] {
	if !w.over.Packs {
		return w.src
	}
	src := w.http()
	return lw.Transform(lw.Pack(src, lw.PackOptions{}), func(p *lw.Packed[*Part]) (*Part, error) { return p.Copy(), nil })
}

func (w *web) close() {
	w.src.Client.CloseIdleConnections()
	for _, r := range slices.Backward(w.relays) {
		r.close()
	}
	w.server.Close()
}

func (w *web) clear() {
	w.server.Clear()
	w.server.SetDown(false)
	if w.over.Clear != nil {
		w.over.Clear()
	}
}

func (w *web) put(p *Part) (types.UID, uint64) {
	if w.over.Packs {
		large := *p
		large.Annotations = map[string]string{"note": strings.Repeat("what all parts have in common, "+p.Name, 20)}
		p = &large
	}
	data, err := json.Marshal(p)
	must(err)
	if p.Size == sizeBroken {
		var m map[string]any
		must(json.Unmarshal(data, &m))
		m["size"] = "broken"
		data, err = json.Marshal(m)
		must(err)
	}
	out, err := w.parts().Get(lw.KeyOf(p))
	if err == nil {
		out, err = w.parts().Update(data)
	} else {
		out, err = w.parts().Create(data)
	}
	must(err)
	return out.UID, out.Version
}

func (w *web) remove(key lw.Key) uint64 {
	out, err := w.parts().Delete(key)
	must(err)
	return out.Version
}
