package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/request"
)

// A crd has those fields of a CustomResourceDefinition that a catalog reads.
type crd struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Group    string   `json:"group"`
		Scope    string   `json:"scope"`
		Names    crdNames `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		AcceptedNames crdNames    `json:"acceptedNames"`
		Conditions    []condition `json:"conditions"`
	} `json:"status"`
}

type crdNames struct {
	Plural string `json:"plural"`
	Kind   string `json:"kind"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// An apiService has those fields of an APIService that a catalog reads.
type apiService struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Group   string `json:"group"`
		Version string `json:"version"`
		Service *struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// is returns the condition of type typ, or a zero one.
func is(all []condition, typ string) condition {
	for _, c := range all {
		if c.Type == typ {
			return c
		}
	}
	return condition{}
}

// deniedFor is how long the catalog waits after 403 or 404 of a collection until it asks again.
// With it and pause, the catalog makes fewer than 360 requests in an hour, whatever the first
// minute brings.
const deniedFor = 6 * time.Minute

// A feed is one of the collections that the catalog watches. If the server refuses it, its informer
// ends, and another one begins later.
type feed[T lw.Object] struct {
	url, name string
	inf       *lw.Informer[T] // nil: it waits until again
	byGroup   *lw.Index[string, T]
	stop      context.CancelFunc
	again     time.Time
	denied    bool // the server has answered 403 or 404
	missing   bool // it was 404

	mu      sync.Mutex
	refusal error // the 403 or 404 of the present informer; guarded by mu
}

// evidence is what Run works with. Only its goroutine uses it, apart from each feed's refusal.
type evidence struct {
	c         *Catalog
	client    *http.Client
	opts      lw.Options // of the informers
	refused   bool       // a feed that was evidence has just ended
	running   sync.WaitGroup
	crds      feed[*crd]
	services  feed[*apiService]
	discovery discovery
}

func newEvidence(c *Catalog) *evidence {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &evidence{c: c, client: c.client, opts: c.opts}
	e.crds.url, e.crds.name = c.url+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition"
	e.services.url, e.services.name = c.url+"/apis/apiregistration.k8s.io/v1/apiservices", "APIService"
	e.discovery.url, e.discovery.client = c.url, c.client
	if c.client == nil {
		e.discovery.client = http.DefaultClient
	}
	return e
}

// start starts the informers that do not run, and may.
func (e *evidence) start(ctx context.Context) {
	begin(ctx, e, &e.crds, func(o *crd) string { return o.Spec.Group }, func(ev lw.WatchEvent[*crd]) {
		if ev.Type == watch.Deleted && ev.Object != nil {
			e.c.ends(string(ev.Object.UID), ev.ResourceVersion)
		}
	})
	begin(ctx, e, &e.services, func(o *apiService) string { return o.Spec.Group }, func(lw.WatchEvent[*apiService]) {})
}

// A seen source calls see with each event of a watch, before the informer gets it.
type seen[T lw.Object] struct {
	lw.Source[T]
	see func(lw.WatchEvent[T])
}

func (s seen[T]) Hints() lw.SourceHints { return lw.HintsOf(s.Source) }

// Reuses is part of [request.Source].
func (s seen[T]) Reuses(request.Mark) bool { return request.Reuses(s.Source) }

func (s seen[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[T]) error) error {
	return s.Source.Watch(ctx, opts, func(ev lw.WatchEvent[T]) error {
		s.see(ev)
		return yield(ev)
	})
}

// begin ends the informer of f if the server has refused it, and starts one if f is due.
func begin[T lw.Object](ctx context.Context, e *evidence, f *feed[T], group func(T) string, see func(lw.WatchEvent[T])) {
	f.mu.Lock()
	refusal := f.refusal
	f.refusal = nil
	f.mu.Unlock()
	if refusal != nil && f.inf != nil {
		f.stop()
		e.refused = e.refused || !f.denied
		f.inf, f.again, f.denied, f.missing = nil, time.Now().Add(deniedFor), true, apierrors.IsNotFound(refusal)
	}
	if f.inf != nil || time.Now().Before(f.again) {
		return
	}
	opts := lw.Options{Board: e.opts.Board, Logger: e.opts.Logger}
	opts.Name = e.opts.Name + f.name
	opts.List = lw.ListPages // the server compresses these, and no stream
	opts.OnError = func(err error) {
		if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			e.failed(err)
			return
		}
		f.mu.Lock()
		f.refusal = err
		f.mu.Unlock()
		e.c.poke()
	}
	src := seen[T]{&lw.HTTP[T]{URL: f.url, Client: e.client, Kind: f.name}, see}
	f.inf = lw.NewInformer(lw.Source[T](src), &opts)
	f.byGroup = lw.NewIndex(f.inf, group)
	ctx, f.stop = context.WithCancel(ctx)
	inf := f.inf
	e.running.Go(func() { _ = inf.Run(ctx) }) // an error was reported
}

// failed reports a failure of the catalog's own requests. Without OnError, it logs the first one of
// each outage.
func (e *evidence) failed(err error) {
	if e.opts.OnError != nil {
		e.opts.OnError(err)
		return
	}
	if own, ok := errors.AsType[*lw.Error](err); ok && own.Failures > 1 {
		return
	}
	logger := cmp.Or(e.opts.Logger, slog.Default())
	logger.Warn("lw: kinds: the catalog fails", slog.Any("error", err))
}

// synced reports whether the feed has evidence: its informer has listed.
func (f *feed[T]) synced() bool {
	if f.inf == nil {
		return false
	}
	select {
	case <-f.inf.Synced():
		f.denied, f.missing = false, false
		return true
	default:
		return false
	}
}

// changes returns a channel that is closed when f is synced, or changes after that; nil: it waits.
func (f *feed[T]) changes(ctx context.Context) <-chan struct{} {
	if f.inf == nil {
		return nil
	}
	if !f.synced() {
		return f.inf.Synced()
	}
	return f.inf.Changed(ctx)
}

// why returns the State.Why of names that wait for f.
func (f *feed[T]) why() string {
	if f.inf == nil {
		return "the catalog has not answered"
	}
	if err := f.inf.Status().Err; err != nil {
		return "the catalog has not answered: " + strings.TrimPrefix(err.Error(), "lw: ")
	}
	return "the catalog has not answered"
}

// look works out the state of each name, and returns after which time to look again.
func (e *evidence) look(ctx context.Context) time.Duration {
	c := e.c
	c.mu.Lock()
	names, doubts, looks := maps.Clone(c.names), c.doubts, c.looks
	c.doubts, c.looks, c.crds = map[Name]struct{}{}, nil, nil
	if e.crds.inf != nil {
		c.crds = e.crds.inf
	}
	c.mu.Unlock()
	for n := range doubts {
		names[n].from = e.discovery.again()
		if e.crds.synced() {
			e.ask(ctx)
		}
	}
	if e.refused {
		for _, of := range names {
			of.from = e.discovery.again()
		}
		e.refused = false
	}
	pending := e.judge(names)
	if pending && e.discovery.due() {
		if err := e.discovery.ask(ctx, names); err != nil && ctx.Err() == nil {
			e.failed(fmt.Errorf("lw: kinds: discovery: %w", err))
		}
		pending = e.judge(names)
	}
	for _, looked := range looks {
		close(looked)
	}
	next := time.Hour
	if pending {
		next = e.discovery.next()
	}
	for _, again := range []time.Time{e.crds.again, e.services.again} {
		if left := time.Until(again); left > 0 {
			next = min(next, left)
		}
	}
	if !e.known() {
		next = min(next, time.Second) // so that Why has the newest error
	}
	return max(next, time.Millisecond)
}

// ask has the informer of CustomResourceDefinitions catch up with the server, and returns at once.
func (e *evidence) ask(ctx context.Context) {
	inf := e.crds.inf
	e.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, _ = inf.CatchUp(ctx) // the informer reports the same errors itself
	})
}

// known reports whether the catalog can judge: each feed is synced, or refused.
func (e *evidence) known() bool {
	return (e.crds.denied || e.crds.synced()) && (e.services.denied || e.services.synced())
}

// judge sets the states of names, and calls their followers. It reports whether one of them waits
// for discovery.
func (e *evidence) judge(names map[Name]*entry) (pending bool) {
	var calls []func()
	for n, of := range names {
		s, waits := e.stateOf(n, of)
		pending = pending || waits
		calls = append(calls, e.c.set(n, of, s)...)
	}
	for _, call := range calls {
		call()
	}
	return pending
}

// stateOf returns the state of n, and whether n waits for discovery.
func (e *evidence) stateOf(n Name, of *entry) (s State, waits bool) {
	switch {
	case !e.known():
		s = of.state
		if !s.Known {
			s.Why = e.crds.why()
			if e.crds.denied || e.crds.synced() {
				s.Why = e.services.why()
			}
		}
		return s, false
	case e.crds.synced():
		if s, ok := e.byCRD(n); ok {
			of.wasOf = false
			return s, false
		}
	}
	made, news, remote := e.servicesOf(n)
	if news != of.news || of.from == 0 {
		of.news, of.from = news, e.discovery.again()
	}
	if len(remote) == 0 && e.crds.synced() && (!e.services.denied || e.services.missing) && !builtIn(n.Group) {
		of.missing = time.Time{}
		if of.wasOf && of.state.Known {
			return State{Known: true, Why: "no APIService serves " + n.groupVersion(), stand: orphaned, news: news}, false
		}
		return State{Known: true, Why: e.whyNot(n), stand: absent}, false
	}
	s, waits = e.discovery.stateOf(n, of, made, remote, !e.crds.synced())
	s.news = news
	of.wasOf = of.wasOf || s.Served && len(remote) > 0
	return s, waits
}

// byCRD returns the state of n if an established CustomResourceDefinition has its name.
func (e *evidence) byCRD(n Name) (s State, ok bool) {
	for _, o := range e.crds.byGroup.List(n.Group) {
		names := o.Status.AcceptedNames
		if is(o.Status.Conditions, "Established").Status != "True" || n.Kind != "" && n.Kind != names.Kind || n.Kind == "" &&
			n.Resource != names.Plural {
			continue
		}
		var versions []string
		for _, v := range o.Spec.Versions {
			if v.Served {
				versions = append(versions, v.Name)
			}
		}
		version := n.Version
		if version == "" && len(versions) > 0 {
			version = versions[0]
		}
		if !slices.Contains(versions, version) {
			why := fmt.Sprintf("the CRD %s serves %s only", o.Name, strings.Join(versions, ", "))
			if len(versions) == 0 {
				why = fmt.Sprintf("the CRD %s serves no version", o.Name)
			}
			return State{Known: true, Why: why, stand: withheld, made: string(o.UID)}, true
		}
		return State{
			Served: true, Known: true, Namespaced: o.Spec.Scope != "Cluster", stand: served, kind: names.Kind,
			made: string(o.UID), news: o.ResourceVersion,
			Resource: schema.GroupVersionResource{Group: n.Group, Version: version, Resource: names.Plural},
		}, true
	}
	return s, false
}

// whyNot says why no CustomResourceDefinition serves n.
func (e *evidence) whyNot(n Name) string {
	for _, o := range e.crds.byGroup.List(n.Group) {
		if n.Kind != "" && n.Kind != o.Spec.Names.Kind || n.Kind == "" && n.Resource != o.Spec.Names.Plural {
			continue
		}
		if accepted := is(o.Status.Conditions, "NamesAccepted"); accepted.Status == "False" {
			return fmt.Sprintf("the names of the CRD %s are not accepted: %s: %s", o.Name, accepted.Reason, accepted.Message)
		}
		if is(o.Status.Conditions, "Established").Status != "True" {
			return fmt.Sprintf("the CRD %s is not established", o.Name)
		}
	}
	return "no CRD serves " + n.String()
}

// builtIn reports whether the API server itself may serve kinds of the group, without a definition.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// servicesOf describes the APIServices of n that lead to other servers. made changes when others
// take their place, and news when their availability changes as well. remote has their versions.
func (e *evidence) servicesOf(n Name) (made, news string, remote []string) {
	if !e.services.synced() {
		return "", "", nil
	}
	var who, how []string
	for _, o := range e.services.byGroup.List(n.Group) {
		to := o.Spec.Service
		if to == nil || n.Version != "" && n.Version != o.Spec.Version {
			continue
		}
		remote = append(remote, o.Spec.Version)
		who = append(who, fmt.Sprintf("%s %s %s/%s", o.Name, o.UID, to.Namespace, to.Name))
		how = append(how, o.Name+" "+is(o.Status.Conditions, "Available").Status)
	}
	slices.Sort(who)
	slices.Sort(how)
	made = strings.Join(who, ", ")
	return made, made + " " + strings.Join(how, ", "), remote
}
