package lwdebug

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/board"
	"github.com/go-lw/lw/internal/why"
)

// report returns what b shows at this moment.
func report(b *lw.Board) *board.Report {
	now := time.Now()
	r := &board.Report{Time: moment(now), Process: board.ThisProcess(), Informers: []board.Informer{}, Graphs: []board.Graph{}, Controllers: []board.Controller{}}
	for name, s := range b.Informers() {
		r.Informers = append(r.Informers, reportOf(name, s, now))
	}
	for name, s := range b.Graphs() {
		r.Graphs = append(r.Graphs, reportOfGraph(name, s))
	}
	for _, s := range why.On(b) {
		r.Controllers = append(r.Controllers, reportOfQueue(&s))
	}
	r.Judge()
	return r
}

func reportOf(name string, s lw.Status, now time.Time) board.Informer {
	kind := board.KindInformer
	if s.Handlers == nil {
		kind = board.KindReflector
	}
	r := board.Informer{
		Name: name, Kind: kind, Phase: s.Phase, Unserved: s.Unserved, Synced: s.Synced, ResourceVersion: s.ResourceVersion,
		Mode: string(s.Mode), Decoder: s.Decoder, Pending: s.Pending, LastEvent: moment(s.LastEvent),
		LastList: moment(s.LastList), ListDue: moment(s.NeedsListSince), SetAside: faultsOf(s.SetAside), Handlers: handlersOf(s.Handlers),
		Requests: board.Requests{
			Lists: s.Requests["list"].Started, Probes: s.Requests["probe"].Started, Streams: s.Requests["stream"].Started,
			Watches: s.Requests["watch"].Started + s.Requests["stream"].Started, Failed: s.Failed, Ended: endedOf(s.Requests), Seconds: map[string]board.Seconds{},
		},
		Events: sum(s.Events), EventsBy: countsOf(s.Events),
		Relists: sum(s.ListCauses) - s.ListCauses["first"], ListsBy: countsOf(s.ListCauses), Undecoded: s.Undecoded, BackoffSeconds: board.Seconds(s.Backoff),
		Epochs: s.Epoch, Packed: packedOf(s.Packed),
	}
	for _, by := range slices.Sorted(maps.Keys(s.BehindCount)) {
		b := board.Delay{By: by, Count: s.BehindCount[by]}
		if q := s.Behind[by]; len(q) > 0 {
			b.Half, b.Most = new(board.Seconds(q[0.5])), new(board.Seconds(q[0.99]))
		}
		r.Behind = append(r.Behind, b)
	}
	for op, n := range s.Requests {
		r.Requests.Seconds[op] = board.Seconds(n.Time)
	}
	if kind == board.KindInformer {
		r.Objects, r.Indexes = &s.Objects, s.Indexes
	}
	if s.Failures > 0 {
		r.Failure = &board.Failure{
			InARow: s.Failures, Since: moment(s.FailingSince), ForSeconds: board.Seconds(max(0, now.Sub(s.FailingSince))), Error: s.Err.Error(),
		}
	}
	return r
}

func packedOf(u *lw.PackUsage) *board.Packed {
	if u == nil {
		return nil
	}
	p := &board.Packed{Limit: u.Limit, Bytes: u.Bytes, LetGo: u.LetGo, Requests: u.Requests, Gone: u.Gone, Failed: u.Failed,
		Namespaces: []board.Share{}, TotalNamespaces: len(u.Largest)}
	for _, s := range u.Largest[:min(len(u.Largest), board.MaxShares)] {
		p.Namespaces = append(p.Namespaces, board.Share{Namespace: s.Namespace, Objects: s.Objects, Bytes: s.Bytes, LetGo: s.LetGo})
	}
	return p
}

// countsOf returns the counts that are not zero.
func countsOf(all map[string]uint64) board.Counts {
	counts := maps.Clone(board.Counts(all))
	maps.DeleteFunc(counts, func(_ string, n uint64) bool { return n == 0 })
	return counts
}

func sum(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// endedOf returns the requests that have ended, by what they asked for and by their code.
func endedOf(all map[string]lw.RequestCount) []board.Ended {
	ended := []board.Ended{}
	for _, op := range slices.Sorted(maps.Keys(all)) {
		for _, code := range slices.Sorted(maps.Keys(all[op].Ended)) {
			ended = append(ended, board.Ended{Op: op, Code: code, N: all[op].Ended[code]})
		}
	}
	return ended
}

func reportOfGraph(name string, s lw.GraphStatus) board.Graph {
	r := board.Graph{
		Name: name, Synced: s.Synced, Steps: s.Steps, BusySeconds: board.Seconds(s.Busy),
		Pending: s.Pending, StepBegan: moment(s.StepBegan), Call: s.Call, Versions: s.Versions, Collections: []board.Collection{},
	}
	for _, c := range s.Collections {
		r.Collections = append(r.Collections, board.Collection{
			Name: c.Name, From: append([]string{}, c.From...), Synced: c.Synced, Objects: c.Objects, Indexes: c.Indexes, Computed: c.Computed,
			Unchanged: c.Unchanged, Pending: c.Pending, Conflicts: faultsOf(c.Conflicts), SetAside: faultsOf(c.SetAside),
			Handlers: handlersOf(c.Handlers),
		})
	}
	return r
}

func reportOfQueue(s *why.Status) board.Controller {
	r := board.Controller{Name: s.Name, Runs: s.Runs, Waiting: s.Waiting, Running: s.Busy, Reasons: []board.Why{}, Loops: []board.Loop{}}
	for _, c := range s.Counts {
		w := board.Why{Collection: c.Collection, Requeue: c.Requeue.String(), Runs: c.Runs, Fields: append([]string{}, c.Fields...)}
		if c.Requeue == why.NoRequeue {
			w.Cause = lw.Cause(c.Cause).String()
		}
		if c.Type != why.None {
			w.Type = lw.EventType(c.Type).String()
		}
		r.Reasons = append(r.Reasons, w)
	}
	for _, l := range s.Loops {
		kind := board.LoopAnswers
		if l.Undo {
			kind = board.LoopUndo
		}
		r.Loops = append(r.Loops, board.Loop{
			Key: l.Key, Kind: kind, Collection: l.Collection, Namespace: l.Object.Namespace, Name: l.Object.Name, Field: l.Field,
			Managers: append([]string{}, l.Managers...), Rounds: l.Rounds, Since: moment(l.Since), Last: moment(l.Last),
		})
	}
	return r
}

func handlersOf(all []lw.HandlerStatus) []board.Handler {
	handlers := []board.Handler{}
	for _, s := range all {
		h := board.Handler{
			Name: s.Name, Synced: s.Synced, Pending: s.Pending, Folded: s.Folded, Panics: s.Panics,
			Calls: board.Calls{Added: s.Calls[lw.Added], Updated: s.Calls[lw.Updated], Deleted: s.Calls[lw.Deleted]},
			Lag:   board.Lag{Count: s.LagCount, SumSeconds: board.Seconds(s.LagSum)},
		}
		for _, bound := range slices.Sorted(maps.Keys(s.Lag)) {
			h.Lag.Buckets = append(h.Lag.Buckets, board.Bucket{Seconds: board.Seconds(bound), Count: s.Lag[bound]})
		}
		handlers = append(handlers, h)
	}
	return handlers
}

// faultsOf names the first of errs in the order of their keys.
func faultsOf(errs map[lw.Key]error) board.Faults {
	keys := slices.SortedFunc(maps.Keys(errs), byNamespace)
	f := board.Faults{Total: len(keys), Objects: []board.Fault{}}
	for _, key := range keys[:min(len(keys), board.MaxFaults)] {
		f.Objects = append(f.Objects, board.Fault{Namespace: key.Namespace, Name: key.Name, Error: errs[key].Error(), Cause: faultText(errs[key], key)})
	}
	return f
}

// faultText returns the text of err, which is about the object of key, without the names of the
// informer and the object.
func faultText(err error, key lw.Key) string {
	switch err := err.(type) {
	case *lw.Error:
		if err.Key == key {
			return err.Op + ": " + strings.TrimPrefix(err.Err.Error(), "lw: ")
		}
	case *lw.Panic:
		return fmt.Sprintf("%s panicked: %v", err.Handler, err.Value)
	}
	return strings.TrimPrefix(err.Error(), "lw: ")
}

// moment returns t as a report has it: in UTC, to the millisecond.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func byNamespace(a, b lw.Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
