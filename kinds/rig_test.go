package kinds_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/kinds"
	"github.com/go-lw/lw/lwtest"
)

// A widget is an object of the kinds of these tests.
type widget struct {
	metav1.TypeMeta `json:",inline"`
	lw.Meta         `json:"metadata"`
	Spec            struct {
		N int `json:"n"`
	} `json:"spec"`
}

const group = "example.com"

var widgetName = kinds.Name{Group: group, Version: "v1", Kind: "Widget"}

// A spec is a CustomResourceDefinition in short.
type spec struct {
	plural, kind string
	cluster      bool
	versions     string // "v1 -v2": v1 is stored and served, and v2 is not served
	description  string
}

var widgets = spec{plural: "widgets", kind: "Widget", versions: "v1"}

func (s spec) object() *unstructured.Unstructured {
	scope := "Namespaced"
	if s.cluster {
		scope = "Cluster"
	}
	var versions []any
	for i, name := range strings.Fields(s.versions) {
		bare, off := strings.CutPrefix(name, "-")
		versions = append(versions, map[string]any{"name": bare, "served": !off, "storage": i == 0})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": s.plural + "." + group, "annotations": map[string]any{"about": s.description}},
		"spec": map[string]any{
			"group": group, "scope": scope, "versions": versions, "about": s.description,
			"names": map[string]any{"plural": s.plural, "kind": s.kind, "listKind": s.kind + "List"},
		},
	}}
}

// A world is a server with definitions, a catalog, and the requests that a program makes.
type world struct {
	t        tester
	server   *lwtest.Server
	crds     *lwtest.Collection[*unstructured.Unstructured]
	services *lwtest.Collection[*unstructured.Unstructured]
	catalog  *kinds.Catalog
	stop     func() // ends the catalog and the informers, and waits for them
	ctx      context.Context
	running  sync.WaitGroup

	saw func(path string) // nil, or called at each request

	mu     sync.Mutex
	urls   []string      // of all requests
	groups string        // "", or what discovery answers at /apis
	late   time.Duration // how long that takes

	unchanged int // such answers that were not sent again
}

// A tester is a testing.T or a rapid.T.
type tester interface {
	Helper()
	Error(...any)
	Fatal(...any)
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.urls = append(w.urls, r.URL.Path)
	groups, late := w.groups, w.late
	w.mu.Unlock()
	if r.URL.Path == "/apis" {
		time.Sleep(late)
	}
	if w.saw != nil {
		w.saw(r.URL.Path)
	}
	if groups != "" && r.URL.Path == "/apis" {
		tag := strconv.Quote(groups)
		if r.Header.Get("If-None-Match") == tag {
			w.mu.Lock()
			w.unchanged++
			w.mu.Unlock()
			return &http.Response{StatusCode: http.StatusNotModified, Body: http.NoBody}, nil
		}
		header := http.Header{"Etag": {tag},
			"Content-Type": {"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(groups))}, nil
	}
	return w.server.Client().Transport.RoundTrip(r)
}

// discover has discovery answer groups, or what is true if that is "".
func (w *world) discover(groups string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups = groups
}

// asked returns how many requests there were of paths with part.
func (w *world) asked(part string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.urls {
		if strings.Contains(u, part) {
			n++
		}
	}
	return n
}

func newWorld(t *testing.T, more ...lwtest.Resource) *world {
	return (&world{t: t, server: lwtest.NewServer(t, append(lwtest.Definitions(), more...)...)}).start(t)
}

// start makes what follows the server until the test ends.
func (w *world) start(t *testing.T) *world {
	w.begin(t.Context())
	t.Cleanup(w.stop)
	return w
}

// begin makes what follows the server.
func (w *world) begin(ctx context.Context) {
	w.crds = lwtest.Objects[*unstructured.Unstructured](w.server, "customresourcedefinitions")
	w.services = lwtest.Objects[*unstructured.Unstructured](w.server, "apiservices")
	w.catalog = kinds.New(w.server.URL(), &http.Client{Transport: w})
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	w.stop = func() { cancel(); w.running.Wait() }
}

// put creates or replaces a definition.
func (w *world) put(o *unstructured.Unstructured) {
	w.t.Helper()
	_, err := w.crds.Create(o)
	if apierrors.IsAlreadyExists(err) {
		_, err = w.crds.Update(o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes a definition of a bare server.
func (w *world) remove(s spec) { w.undefine(s) }

// run runs the catalog.
func (w *world) run() {
	w.running.Go(func() {
		if err := w.catalog.Run(w.ctx); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) define(s spec) {
	w.t.Helper()
	if _, err := w.crds.Create(s.object()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) redefine(s spec) {
	w.t.Helper()
	now, err := w.crds.Get(lw.Key{Name: s.plural + "." + group})
	if err != nil {
		w.t.Fatal(err)
	}
	now.Object["spec"] = s.object().Object["spec"]
	if _, err := w.crds.Update(now); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) undefine(s spec) {
	w.t.Helper()
	if err := w.crds.Delete(lw.Key{Name: s.plural + "." + group}); err != nil {
		w.t.Fatal(err)
	}
}

// objects returns the objects of a resource that is served.
func (w *world) objects(plural string) *lwtest.Collection[*widget] {
	return lwtest.Objects[*widget](w.server, plural)
}

func create(t tester, to *lwtest.Collection[*widget], namespace, name string) *widget {
	t.Helper()
	o, err := to.Create(&widget{Meta: lw.Meta{Namespace: namespace, Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A follower is an informer of a gate, and what its handler and its log have got.
type follower struct {
	*lw.Informer[*widget]
	mu     sync.Mutex
	calls  []string
	errors []string
	log    bytes.Buffer
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

func (f *follower) note(to *[]string, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = append(*to, text)
}

// take returns the calls since the last take, sorted.
func (f *follower) take() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	slices.Sort(calls)
	return calls
}

func (f *follower) failures() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	errs := f.errors
	f.errors = nil
	return errs
}

// waits returns how many lines of the log say that the informer waits.
func (f *follower) waits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(f.log.String(), "waits")
}

func (w *world) follow(n kinds.Name, opts *kinds.SourceOptions[*widget]) *follower {
	return w.followWith(n, opts, lw.Options{}, nil)
}

func (w *world) followWith(n kinds.Name, opts *kinds.SourceOptions[*widget], o lw.Options,
	wrap func(lw.Source[*widget]) lw.Source[*widget]) *follower {
	f := &follower{}
	o.Name = n.String()
	o.Logger = slog.New(slog.NewTextHandler(f, nil))
	o.OnError = func(err error) { f.note(&f.errors, err.Error()) }
	src := kinds.Source(w.catalog, n, opts)
	if wrap != nil {
		src = wrap(src)
	}
	f.Informer = lw.NewInformer(src, &o)
	f.AddHandler(lw.Handler[*widget]{
		Add:    func(o *widget) { f.note(&f.calls, "add "+o.Name) },
		Update: func(_, o *widget) { f.note(&f.calls, fmt.Sprintf("update %s %d", o.Name, o.Spec.N)) },
		Delete: func(o *widget) { f.note(&f.calls, "delete "+o.Name) },
	})
	w.running.Go(func() {
		if err := f.Run(w.ctx); err != nil {
			w.t.Error(err)
		}
	})
	return f
}

// within waits until ok is true, and returns how long that took.
func within(t testing.TB, most time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > most {
			t.Fatalf("not within %v: %s", most, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begun)
}
