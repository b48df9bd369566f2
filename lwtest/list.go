package lwtest

//lint:file-ignore ST1005 The errors begin with the names of methods.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-lw/lw"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// listed is what a List yielded and returned.
type listed[T lw.Object] struct {
	objs []T
	meta metav1.ListMeta
	err  error
}

// read calls List and collects what it yields. When List has yielded after objects, and while its
// yield runs, between is called in rapid's goroutine; it may be nil. read fails the history if List
// yields an error or no object, yields concurrently, or yields after it has returned.
func (h *history[T]) read(opts metav1.ListOptions, after int, between func()) listed[T] {
	var r listed[T]
	var wrong error
	var busy, over atomic.Bool
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h.callServing("List", func(here func(func())) {
		r.meta, r.err = h.Source().List(ctx, opts, func(obj T, err error) error {
			var zero T
			switch {
			case over.Load():
				wrong = errors.New("List has yielded after it had returned")
				return errYield
			case !busy.CompareAndSwap(false, true):
				wrong = errors.New("List has yielded while yield was running")
				return errYield
			}
			defer busy.Store(false)
			switch {
			case err != nil:
				wrong = fmt.Errorf("List has yielded an error: %w", err)
			case obj == zero:
				wrong = errors.New("List has yielded no object")
			default:
				r.objs = append(r.objs, obj)
			}
			if between != nil && len(r.objs) == after {
				here(between)
			}
			return nil
		})
		over.Store(true)
	})
	if wrong != nil {
		h.rt.Fatal(h.report("%s: %v", describe(opts), wrong))
	}
	return r
}

// mustList reads a list and fails the history if List returns an error.
func (h *history[T]) mustList(opts metav1.ListOptions) ([]T, metav1.ListMeta) {
	r := h.read(opts, 0, nil)
	if r.err == nil {
		r.err = valid(r.meta.ResourceVersion)
	}
	if r.err != nil {
		h.rt.Fatal(h.report("%s: %v", describe(opts), r.err))
	}
	return r.objs, r.meta
}

// describe returns opts as a few words for the report: "list of 2 at 17".
func describe(opts metav1.ListOptions) string {
	s := "list"
	switch {
	case opts.SendInitialEvents != nil:
		s = "stream"
	case opts.Watch:
		s = "watch"
	}
	if opts.Limit > 0 {
		s += fmt.Sprintf(" of %d", opts.Limit)
	}
	if opts.Continue != "" {
		s += ", continued"
	}
	if opts.ResourceVersion != "" {
		s += " at " + opts.ResourceVersion
	}
	if opts.ResourceVersionMatch != "" {
		s += " " + string(opts.ResourceVersionMatch)
	}
	if sel := opts.LabelSelector + opts.FieldSelector; sel != "" {
		s += " of " + sel
	}
	return s
}

// list reads the whole collection in one response, at a version that it draws, and writes to the
// collection meanwhile.
func (h *history[T]) list(rt *rapid.T) {
	sel := h.drawSelector(rt)
	opts := metav1.ListOptions{LabelSelector: sel.Labels, FieldSelector: sel.Fields}
	minChanges := 0
	switch rapid.SampledFrom([]string{"newest", "any", "not older", "not older, unsaid", "exact"}).Draw(rt, "which") {
	case "newest":
		minChanges = len(h.changes)
	case "any":
		opts.ResourceVersion = "0"
	case "not older":
		opts.ResourceVersion, opts.ResourceVersionMatch = h.drawVersion(rt), metav1.ResourceVersionMatchNotOlderThan
	case "not older, unsaid":
		opts.ResourceVersion = h.drawVersion(rt)
	case "exact":
		opts.ResourceVersion, opts.ResourceVersionMatch = h.drawVersion(rt), metav1.ResourceVersionMatchExact
	}
	writes := h.writes(rt, 2)
	r := h.read(opts, 1, func() {
		for _, write := range writes {
			write()
		}
	})
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	if r.err != nil && exact && h.expired("List", opts.ResourceVersion, r.err) {
		return
	}
	if r.err == nil {
		r.err = valid(r.meta.ResourceVersion)
	}
	version := r.meta.ResourceVersion
	h.step("%s: %d objects at %s", describe(opts), len(r.objs), version)
	switch {
	case r.err != nil:
		h.rt.Fatal(h.report("%s: %v", describe(opts), r.err))
	case exact && version != opts.ResourceVersion:
		h.rt.Fatal(h.report("%s is at %s", describe(opts), version))
	case opts.ResourceVersion != "" && opts.ResourceVersion != "0" && compare(version, opts.ResourceVersion) < 0:
		h.rt.Fatal(h.report("%s is at %s, which is older", describe(opts), version))
	case r.meta.Continue != "":
		h.rt.Fatal(h.report("%s is not whole, and no limit was asked for", describe(opts)))
	case compare(version, h.truth.start) < 0:
		return // older than the history: its state is not known
	}
	if err := h.matches(version, r.objs, sel.Matches, minChanges); err != nil {
		h.rt.Fatal(h.report("%s, at %s: %v", describe(opts), version, err))
	}
	h.addVersion(version)
}

// pages reads the collection in pages, and writes to it between them.
func (h *history[T]) pages(rt *rapid.T) {
	sel := h.drawSelector(rt)
	opts := metav1.ListOptions{LabelSelector: sel.Labels, FieldSelector: sel.Fields, Limit: rapid.Int64Range(1, 3).Draw(rt, "limit")}
	most := len(h.now()) + 3
	var writes [][]func()
	for range 3 {
		writes = append(writes, h.writes(rt, 2))
	}
	compactAfter := rapid.IntRange(0, 3).Draw(rt, "compact after page")
	minChanges := len(h.changes)
	var objs []T
	version := ""
	for page := 1; ; page++ {
		r := h.read(opts, 0, nil)
		if r.err != nil && h.expired(fmt.Sprintf("page %d", page), version, r.err) {
			return
		}
		if r.err == nil {
			r.err = valid(r.meta.ResourceVersion)
		}
		h.step("%s: page %d of %d objects at %s", describe(opts), page, len(r.objs), r.meta.ResourceVersion)
		switch {
		case r.err != nil:
			h.rt.Fatal(h.report("page %d: %v", page, r.err))
		case version != "" && r.meta.ResourceVersion != version:
			h.rt.Fatal(h.report("page %d is at %s, the ones before it at %s", page, r.meta.ResourceVersion, version))
		case r.meta.Continue != "" && int64(len(r.objs)) > opts.Limit:
			h.rt.Fatal(h.report("page %d has %d objects, of %d at most", page, len(r.objs), opts.Limit))
		case page > most+1:
			h.rt.Fatal(h.report("the pages do not end: %d of a list of %d", page, most))
		}
		objs, version = append(objs, r.objs...), r.meta.ResourceVersion
		if r.meta.Continue == "" {
			break
		}
		opts.Continue = r.meta.Continue
		if page <= len(writes) {
			for _, write := range writes[page-1] {
				write()
			}
		}
		if page == compactAfter && h.Compact != nil {
			h.compact(rt)
		}
	}
	if err := h.matches(version, objs, sel.Matches, minChanges); err != nil {
		h.rt.Fatal(h.report("the pages at %s: %v", version, err))
	}
	h.addVersion(version)
}

// refuse ends a list or a watch from within yield: yield returns an error, or cancels the context.
func (h *history[T]) refuse(rt *rapid.T) {
	if len(h.now()) == 0 {
		rt.Skip("nothing would be yielded")
	}
	cancels := rapid.Bool().Draw(rt, "by the context")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var n atomic.Int64 // a broken source may yield in several goroutines
	refused := func() error {
		n.Add(1)
		if cancels {
			cancel()
			return nil
		}
		return errYield
	}
	from := ""
	name, run := "List", func() error {
		_, err := h.Source().List(ctx, metav1.ListOptions{}, func(T, error) error { return refused() })
		return err
	}
	if rapid.Bool().Draw(rt, "watch") {
		h.listNow()
		from = h.newest()
		h.put(h.drawKey(rt))
		name, run = "Watch", func() error {
			return h.Source().Watch(ctx, metav1.ListOptions{Watch: true, ResourceVersion: from},
				func(lw.WatchEvent[T]) error { return refused() })
		}
	}
	var err error
	h.call(name+", whose yield "+map[bool]string{true: "ends the context", false: "returns an error"}[cancels]+",", func() { err = run() })
	h.step("%s until yield has enough: %v", name, err)
	switch {
	case cancels:
	case from != "" && h.expired(name, from, err):
	case !errors.Is(err, errYield):
		h.rt.Fatal(h.report("%s returned %v, and yield %v", name, err, errYield))
	case n.Load() != 1:
		h.rt.Fatal(h.report("%s has yielded %d times, and yield returned an error at first", name, n.Load()))
	}
}
