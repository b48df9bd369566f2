package pack_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"pgregory.net/rapid"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

var carpResource = lwtest.Resource{Plural: "carps", Kind: "Carp", Type: &carp.Carp{}}

// newCarp returns a carp that is large enough to be packed.
func newCarp(name string, n int) *carp.Carp {
	c := &carp.Carp{ObjectMeta: metav1.ObjectMeta{
		Namespace: []string{"pond", "lake"}[len(name)%2], Name: name,
		Labels: map[string]string{"app": fmt.Sprint("a", n%3), "name": name},
		Annotations: map[string]string{"note": strings.Repeat(fmt.Sprintf("the note of %s, which has some length; ",
			name), 8+n%5)},
	}}
	c.Spec.NodeName = fmt.Sprint("node", n%4)
	c.Spec.Hostname = fmt.Sprint("host", n)
	c.Status.Message = fmt.Sprint("size ", n)
	if n%2 == 0 {
		c.Status.Conditions = []carp.CarpCondition{{Type: "Ready", Status: "True", Reason: fmt.Sprint("n", n)}}
	}
	return c
}

// packedKinds are the forms in which the carps come.
var packedKinds = map[string]struct{ accept string }{
	"JSON": {"application/json"}, "protobuf": {"application/vnd.kubernetes.protobuf"}, "CBOR": {"application/cbor"},
}

// What Open returns is what the source without Pack yields, in each encoding, typed, untyped and of
// metadata alone; and what identifies it, its labels and its bytes are there without it.
func TestPackOpens(t *testing.T) {
	for name, kind := range packedKinds {
		t.Run(name, func(t *testing.T) {
			testPackOpens[*carp.Carp](t, kind.accept)
			if name != "protobuf" {
				testPackOpens[*unstructured.Unstructured](t, kind.accept)
			}
			testPackOpens[*metav1.PartialObjectMetadata](t, "")
			testPackOpens[*carpPlace](t, kind.accept)
		})
	}
}

// carpPlace is a projection.
type carpPlace struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

func testPackOpens[T lw.Object](t *testing.T, accept string) {
	t.Helper()
	server := lwtest.NewServer(t, carpResource)
	objects := lwtest.Objects[*carp.Carp](server, "carps")
	for i := range 300 {
		rig.Must[*carp.Carp](t)(objects.Create(newCarp(fmt.Sprint("carp-", i), i)))
	}
	at := objects.Source()
	source := func() *lw.HTTP[T] { return &lw.HTTP[T]{URL: at.URL, Client: at.Client, Accept: accept} }
	plain := map[lw.Key]T{}
	_, err := source().List(t.Context(), metav1.ListOptions{}, func(obj T, err error) error {
		plain[lw.KeyOf(obj)] = obj
		return err
	})
	rig.OK(t, err)
	var cells []*lw.Packed[T]
	_, err = lw.Pack(source(), lw.PackOptions{}).List(t.Context(), metav1.ListOptions{},
		func(p *lw.Packed[T], err error) error {
			cells = append(cells, p)
			return err
		})
	rig.OK(t, err)
	for _, p := range cells {
		want := plain[lw.KeyOf(p)]
		delete(plain, lw.KeyOf(p))
		if p.GetUID() != want.GetUID() || p.GetResourceVersion() != want.GetResourceVersion() {
			t.Fatalf("%v: the UID is %s and the version %s", lw.KeyOf(p), p.GetUID(), p.GetResourceVersion())
		}
		if l, ok := any(want).(interface{ GetLabels() map[string]string }); ok {
			rig.Same(t, "labels", l.GetLabels(), p.GetLabels())
		}
		if _, ok := p.Peek(); ok {
			t.Fatal("labels have opened the object")
		}
		got := p.Open()
		rig.Same(t, lw.KeyOf(p).String(), want, got)
		if again, ok := p.Peek(); !ok || again != got || p.Open() != got {
			t.Fatal("what somebody has is decoded again")
		}
		if own := p.Copy(); own == got || !reflect.DeepEqual(own, got) {
			t.Fatalf("Copy is not one: %v", own)
		}
		data, isProtobuf := p.Bytes([]byte("x"))
		if isProtobuf != strings.Contains(accept, "protobuf") && accept != "" || data[0] != 'x' || len(data) < 300 &&
			reflect.TypeFor[T]() != reflect.TypeFor[*metav1.PartialObjectMetadata]() {
			t.Fatalf("the bytes are %q", data)
		}
		if !isProtobuf && !json.Valid(data[1:]) {
			t.Fatalf("the bytes are %q", data)
		}
		var one, other bytes.Buffer
		rig.OK(t, json.NewEncoder(&one).Encode(p))
		rig.OK(t, json.NewEncoder(&other).Encode(want))
		rig.Same(t, "JSON", other.String(), one.String())
	}
	if len(plain) > 0 {
		t.Errorf("%d are missing", len(plain))
	}
}

// A UID that is too long to stand beside the packed bytes is read from these.
func TestPackLongUID(t *testing.T) {
	uid := strings.Repeat("u", 300)
	body := `{"kind":"CarpList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"pond",` +
		`"name":"koi","resourceVersion":"5","uid":"` + uid + `"}}]}`
	client := &http.Client{Transport: rig.RoundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body))}, nil
	})}
	for name, opts := range map[string]lw.PackOptions{"all": {}, "with a limit": {Limit: &lw.PackLimit{Bytes: 1}}} {
		src := lw.Pack(&lw.HTTP[*carp.Carp]{URL: "http://server/carps", Client: client}, opts)
		var got []string
		_, err := src.List(t.Context(), metav1.ListOptions{}, func(p *lw.Packed[*carp.Carp], err error) error {
			got = append(got, string(p.GetUID()), p.GetResourceVersion(), string(p.Open().UID), p.GetName())
			return err
		})
		rig.OK(t, err)
		rig.Same(t, name, []string{uid, "5", uid, "koi"}, got)
	}
}

// Packed objects have a small part of the memory, also after each was opened once; and a name does
// not keep the bytes of the version that it came with.
func TestPackedIsSmall(t *testing.T) {
	server := lwtest.NewServer(t, carpResource)
	objects := lwtest.Objects[*carp.Carp](server, "carps")
	for i := range 2000 {
		c := newCarp(fmt.Sprint("carp-", i), i)
		c.Annotations["more"] = strings.Repeat("much more that all have in common, ", 100)
		rig.Must[*carp.Carp](t)(objects.Create(c))
	}
	plain, packed := 0.0, 0.0
	{
		before := rig.Heap()
		var all []*carp.Carp
		_, err := objects.Source().List(t.Context(), metav1.ListOptions{},
			func(c *carp.Carp, err error) error { all = append(all, c); return err })
		rig.OK(t, err)
		plain = rig.Heap() - before
		runtime.KeepAlive(all)
	}
	before := rig.Heap()
	var all []*lw.Packed[*carp.Carp]
	_, err := lw.Pack(objects.Source(), lw.PackOptions{}).List(t.Context(), metav1.ListOptions{},
		func(p *lw.Packed[*carp.Carp], err error) error { all = append(all, p); return err })
	rig.OK(t, err)
	for _, p := range all {
		p.Open()
	}
	if packed = rig.Heap() - before; packed > plain/4 {
		t.Errorf("%.0f bytes in the place of %.0f", packed, plain)
	}
	rig.Heap() // pools are let go of at the second collection
	before = rig.Heap()
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.GetName()
	}
	clear(all)
	all = nil
	rig.Heap()
	if freed := before - rig.Heap(); freed < 2000*200 {
		t.Errorf("names keep all but %.0f of %.0f bytes", freed, packed)
	}
	runtime.KeepAlive(names)
}

// All indexes of a list open an object once, also if what they have opened is collected at once.
func TestPackedIndexesOpenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, carpResource)
		objects := lwtest.Objects[*carp.Carp](server, "carps")
		const n = 200
		for i := range n {
			rig.Must[*carp.Carp](t)(objects.Create(newCarp(fmt.Sprint("carp-", i), i)))
		}
		var decoded atomic.Int64
		src := lw.Pack(objects.Source(), lw.PackOptions{Finish: func(lw.Identified) { decoded.Add(1) }})
		inf := lw.NewInformer(src, nil)
		for i := range 4 {
			lw.NewIndex(inf, func(p *lw.Packed[*carp.Carp]) string {
				c := p.Open()
				if i == 0 {
					runtime.GC()
				}
				return c.Spec.NodeName
			})
		}
		rig.Start(t, inf)
		synctest.Wait()
		if got := decoded.Load(); inf.Store().Len() != n || got < n || got > 2*n+n/10 { // a collection may come in between
			t.Errorf("%d of %d objects were decoded %d times", inf.Store().Len(), n, got)
		}
	})
}

// A history is what a server has, a plain and a packed informer of it, and what each was told.
type packedHistory struct {
	server  *lwtest.Server
	objects *lwtest.Collection[*carp.Carp]
	plain   *lw.Informer[*carp.Carp]
	packed  *lw.Informer[*lw.Packed[*carp.Carp]]
	byNode  *lw.Index[string, *carp.Carp]
	byNodeP *lw.Index[string, *lw.Packed[*carp.Carp]]
	rows    *lw.Derived[*carpRow]
	rowsP   *lw.Derived[*carpRow]

	mu     sync.Mutex
	story  map[string][]string // of each informer's handler; guarded by mu
	errors []error             // guarded by mu
	n      int
	wrong  string // the first difference
}

type carpRow struct {
	lw.Meta
	Node, Message string
	Labels        int
}

func carpRowOf(c *carp.Carp) *carpRow {
	if c.Spec.NodeName == "node3" {
		return nil
	}
	return &carpRow{Meta: lw.MetaOf(c), Node: c.Spec.NodeName, Message: c.Status.Message, Labels: len(c.Labels)}
}

func textOf(c *carp.Carp) string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (h *packedHistory) tell(who, text string, objs ...*carp.Carp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range objs {
		text += " " + textOf(c)
	}
	h.story[who] = append(h.story[who], text)
}

func (h *packedHistory) source(accept string) *lw.HTTP[*carp.Carp] {
	src := h.objects.Source()
	src.Accept = accept
	return src
}

func (h *packedHistory) start(t *testing.T, accept string, mode lw.ListMode, detect bool) {
	opts := &lw.Options{List: mode, PageSize: 2, DetectMutation: detect, OnError: func(err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.errors = append(h.errors, err)
	}}
	h.plain = lw.NewInformer(h.source(accept), opts)
	h.packed = lw.NewInformer(lw.Pack(h.source(accept), lw.PackOptions{}), opts)
	h.byNode = lw.NewIndex(h.plain, func(c *carp.Carp) string { return c.Spec.NodeName })
	h.byNodeP = lw.NewIndex(h.packed, func(p *lw.Packed[*carp.Carp]) string { return p.Open().Spec.NodeName })
	h.plain.AddHandler(lw.Handler[*carp.Carp]{
		Add:    func(c *carp.Carp) { h.tell("plain", "add", c) },
		Update: func(old, c *carp.Carp) { h.tell("plain", "update", old, c) },
		Delete: func(c *carp.Carp) { h.tell("plain", "delete", c) },
	})
	h.packed.AddHandler(lw.Handler[*lw.Packed[*carp.Carp]]{
		Add:    func(p *lw.Packed[*carp.Carp]) { h.tell("packed", "add", p.Open()) },
		Update: func(old, p *lw.Packed[*carp.Carp]) { h.tell("packed", "update", old.Open(), p.Open()) },
		Delete: func(p *lw.Packed[*carp.Carp]) { h.tell("packed", "delete", p.Open()) },
	})
	g := lw.NewGraph(nil)
	h.rows = lw.Derive(g, h.plain, carpRowOf)
	h.rowsP = lw.Derive(g, h.packed, func(p *lw.Packed[*carp.Carp]) *carpRow { return carpRowOf(p.Open()) })
	rig.Start(t, h.plain)
	rig.Start(t, h.packed)
	rig.Start(t, g)
}

func openAll(cells []*lw.Packed[*carp.Carp]) (all []*carp.Carp) {
	for _, p := range cells {
		all = append(all, p.Open())
	}
	return all
}

func sorted[T lw.Identified](objs []T) map[lw.Key]T {
	m := map[lw.Key]T{}
	for _, obj := range objs {
		m[lw.KeyOf(obj)] = obj
	}
	return m
}

// calm ends the faults, and waits until both informers are over them.
func (h *packedHistory) calm() {
	h.server.Clear()
	time.Sleep(20 * time.Minute)
	synctest.Wait()
}

// fail notes the first difference.
func (h *packedHistory) fail(format string, args ...any) {
	if h.wrong == "" {
		h.wrong = fmt.Sprintf(format, args...)
	}
}

// compare compares all that can be read of both.
func (h *packedHistory) compare() {
	synctest.Wait()
	same := func(what string, want, got any) {
		if diff := cmp.Diff(want, got); diff != "" {
			h.fail("%s (-plain +packed):\n%s", what, diff)
		}
	}
	same("version", h.plain.Store().ResourceVersion(), h.packed.Store().ResourceVersion())
	plain := sorted(h.plain.Store().List())
	same("list", plain, sorted(openAll(h.packed.Store().List())))
	for key, c := range plain {
		p, ok := h.packed.Store().Get(key)
		if !ok {
			h.fail("get of %v finds nothing", key)
			continue
		}
		same("get", c, p.Open())
		same("labels", c.Labels, p.GetLabels())
		same("copy", c, p.Copy())
	}
	for n := range 4 {
		node := fmt.Sprint("node", n)
		same("index", sorted(h.byNode.List(node)), sorted(openAll(h.byNodeP.List(node))))
	}
	same("graph", sorted(h.rows.Store().List()), sorted(h.rowsP.Store().List()))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, err := range h.errors {
		if e, ok := err.(*lw.Error); ok && e.Op == "mutation" {
			h.fail("%v", err)
		}
	}
}

// stories compares what the handlers were told: the same of each object, if no fault has had the
// two see other states.
func (h *packedHistory) stories() {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, b := slices.Sorted(slices.Values(h.story["plain"])), slices.Sorted(slices.Values(h.story["packed"]))
	if diff := cmp.Diff(a, b); diff != "" {
		h.fail("handlers (-plain +packed):\n%s", diff)
	}
}

// Whatever happens, a packed informer shows what one without Pack shows, and calls its handlers
// alike: writes, deletions, outages, relists, restores and what it is told of. A collector runs all
// the time.
func TestPackHistories(t *testing.T) {
	leak.Collect(t, 10*time.Millisecond)
	rapid.Check(t, func(rt *rapid.T) {
		accept := rapid.SampledFrom([]string{"application/json", "", "application/cbor"}).Draw(rt, "accept")
		mode := rapid.SampledFrom([]lw.ListMode{lw.ListWhole, lw.ListPages, lw.ListAuto, lw.ListStream}).Draw(rt, "mode")
		wrong := ""
		synctest.Test(t, func(t *testing.T) {
			server := lwtest.NewServer(t, carpResource)
			h := &packedHistory{server: server, objects: lwtest.Objects[*carp.Carp](server, "carps"),
				story: map[string][]string{}}
			h.run(t, rt, accept, mode)
			wrong = h.wrong
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func (h *packedHistory) run(t *testing.T, rt *rapid.T, accept string, mode lw.ListMode) {
	names := []string{"a", "bb", "c", "dd", "e"}
	write := func() {
		name := rapid.SampledFrom(names).Draw(rt, "name")
		h.n++
		c := newCarp(name, h.n)
		if _, err := h.objects.Get(lw.KeyOf(c)); err != nil {
			rig.Must[*carp.Carp](t)(h.objects.Create(c))
		} else {
			rig.Must[*carp.Carp](t)(h.objects.Update(c))
		}
	}
	for range rapid.IntRange(0, 6).Draw(rt, "preload") {
		write()
	}
	detect := rapid.IntRange(0, 3).Draw(rt, "detect mutation") == 0 // it looks at all objects each second
	h.start(t, accept, mode, detect)
	// With a pause after each step, and no fault, both are told the same.
	settled, outages := rapid.Bool().Draw(rt, "settled"), lwtest.Outages()
	faults := !settled
	if settled {
		h.calm()
	}
	for range rapid.IntRange(1, 12).Draw(rt, "steps") {
		switch step := rapid.SampledFrom([]string{"write", "write", "write", "remove", "tell", "relist", "restore", "outage",
			"gc", "look"}).Draw(rt, "step"); step {
		case "write":
			write()
		case "remove":
			_ = h.objects.Delete(lw.KeyOf(newCarp(rapid.SampledFrom(names).Draw(rt, "name"), 0)))
		case "tell": // before the watch brings it
			h.calm()
			h.server.Stall()
			write()
			for c := range h.objects.All() {
				_, _ = h.plain.Tell(c), h.packed.Tell(c)
			}
			h.compare()
			h.server.Clear()
		case "relist":
			h.server.Advance(3)
			h.server.Compact()
			h.server.Break()
			write()
			faults = true
		case "restore":
			write()
			h.server.SetDown(true) // a restore without an outage may go unnoticed: see doc.go
			time.Sleep(time.Minute)
			_ = h.server.Restore(1)
			h.server.SetDown(false)
			time.Sleep(5 * time.Minute) // until both have asked: the next write has the version that was lost
			faults = true
		case "outage":
			o := outages[rapid.IntRange(0, len(outages)-1).Draw(rt, "outage")]
			rt.Log(o.Name)
			o.Do(h.server)
			write()
			time.Sleep(o.Lasts + 5*time.Minute)
			faults = true
		case "gc":
			runtime.GC()
		case "look":
			h.calm()
			h.compare()
		}
		if settled || rapid.Bool().Draw(rt, "settle") {
			time.Sleep(time.Second)
			synctest.Wait()
		}
	}
	h.calm()
	h.compare()
	if !faults {
		h.stories()
	}
}
