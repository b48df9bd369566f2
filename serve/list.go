package serve

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/order"
)

// patience is how long a request waits for a version that is not here yet, as on kube-apiserver.
const patience = 3 * time.Second

// A filter selects items.
type filter struct {
	*listopts.Filter
	resource *resource
	costly   *costly // nil: it matches at once
}

func (r *resource) knows(field string) bool { return slices.Contains(r.fieldNames, field) }

// matches reports whether the filter selects an item. It is false for nil.
func (f *filter) matches(i *item) bool {
	if i == nil {
		return false
	}
	key := i.key()
	unknown := false // what is asked for: who may have asked for the item is told of its error
	selects := f.Matches(listopts.Object{
		Namespace: key.Namespace, Name: key.Name, UID: i.uid, Labels: i.labels,
	}, func(name string) string {
		if n, ok := slices.BinarySearch(f.resource.fieldNames, name); ok {
			unknown = i.failed != nil
			return i.fields[n]
		}
		return ""
	})
	if i.failed != nil && i.failed.labels && f.Selects() {
		unknown = f.Namespace() == "" || f.Namespace() == key.Namespace
	}
	return selects || unknown
}

// selected yields the items of a state that the filter selects, in order, from a path on. One that
// the selector names is looked up: most watches of single objects would else pass over all.
func (f *filter) selected(state *order.List[*item], start string) iter.Seq[*item] {
	prefix := listopts.Prefix(f.Namespace())
	start = max(start, prefix)
	return func(yield func(*item) bool) {
		if name := f.Name(); name != "" && (prefix != "" || f.resource.cluster) {
			if i, ok := state.Get(prefix + name); ok && i.path >= start && f.selects(i) {
				yield(i)
			}
			return
		}
		for path, i := range state.From(start) {
			if !strings.HasPrefix(path, prefix) || f.selects(i) && !yield(i) {
				return
			}
		}
	}
}

// A page is the answer to a list: one state, and the items of it that are asked for.
type page struct {
	meta  metav1.ListMeta
	items []*item
	whole bool // all items of the collection
	era   int  // of the history: after a new beginning a version may be that of another state
}

// list answers with a list, or with one page of a list. It waits for the state before it takes its
// turn: while the server is silent, who asks for what is here must not wait behind those who do not.
func (q *request) list() error {
	if err := listopts.ValidateList(q.opts); err != nil {
		return err
	}
	f, err := q.filter()
	if err != nil {
		return err
	}
	of, err := q.await(q.r.Context())
	if err != nil {
		return err
	}
	done, err := q.beginList()
	if err != nil {
		return err
	}
	defer done()
	p, err := q.page(f, of)
	if err != nil {
		return err
	}
	return q.writeList(p)
}

// A moment is the state that a list is of, and where in it the list begins.
type moment struct {
	exact   bool
	version uint64 // if exact; else the state is what is here
	start   string
	token   *listopts.Token // nil: it is no further page
}

// await returns the moment that the request asks for, when it is here.
func (q *request) await(ctx context.Context) (of moment, err error) {
	if q.opts.Continue != "" {
		token, err := listopts.Continued(q.opts)
		if err != nil {
			return of, err
		}
		of = moment{token.Version != listopts.Inconsistent, uint64(token.Version), token.From(q.target.key.Namespace), &token}
		if !of.exact {
			return of, q.newest(ctx)
		}
		return of, q.served.reachExactly(ctx, of.version)
	}
	version, err := listopts.ParseVersion(q.opts.ResourceVersion)
	switch {
	case err != nil:
		return of, apierrors.NewBadRequest(err.Error())
	case q.opts.ResourceVersion == "":
		return of, q.newest(ctx)
	case listopts.Exact(q.opts):
		return moment{exact: true, version: version}, q.served.reachExactly(ctx, version)
	case version > 0:
		return of, q.served.reach(ctx, version)
	}
	return of, nil
}

// page finds the items of a moment that the request asks for.
func (q *request) page(f *filter, of moment) (*page, error) {
	era := q.served.currentEra()
	state, version, err := q.served.stateAt(of)
	if err != nil {
		return nil, err
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: listopts.FormatVersion(version), ShardInfo: f.Shard()}}
	limit := int(min(listopts.Limit(q.opts), math.MaxInt32))
	prefix := listopts.Prefix(f.Namespace())
	p.era = era
	p.whole = prefix == "" && of.start == "" && !f.Selects() && q.served.currentEra() == era
	if p.whole && limit == 0 {
		p.items = make([]*item, 0, state.Len())
	}
	for i := range f.selected(&state, of.start) {
		if limit == 0 || len(p.items) < limit {
			p.items = append(p.items, i)
			continue
		}
		p.whole = false
		p.meta.Continue = listopts.After(version, q.target.key.Namespace, p.items[limit-1].path).Encode()
		if !f.Selects() {
			end := ""
			if prefix != "" {
				end = strings.TrimSuffix(prefix, "/") + "0" // the byte after the slash
			}
			p.meta.RemainingItemCount = new(int64(state.Count(i.path, end)))
		}
		break
	}
	return p, nil
}

// stateAt returns the state of a moment, and its version.
func (s *served) stateAt(of moment) (order.List[*item], uint64, error) {
	if of.exact {
		state, err := s.at(of.version)
		// Whoever has pages of a history that was replaced must not go on with those of another one.
		if of.token != nil && apierrors.IsResourceExpired(err) && !apierrors.HasStatusCause(err, listopts.CauseReplaced) {
			err = listopts.ExpiredToken(of.token.Start)
		}
		return state, of.version, err
	}
	state, version, ok := s.present()
	if !ok { // since the request came
		return state, 0, s.notSynced()
	}
	return state, version, nil
}

// get answers with one object.
func (q *request) get() error {
	s, ctx := q.served, q.r.Context()
	version, err := listopts.ParseVersion(q.opts.ResourceVersion)
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case q.opts.ResourceVersion == "":
		err = q.newest(ctx)
	case version > 0:
		err = s.reach(ctx, version)
	}
	if err != nil {
		return err
	}
	i, ok := s.current(q.target.key)
	if !ok || s.cluster == (q.target.key.Namespace != "") {
		return apierrors.NewNotFound(s.groupResource(), q.target.key.Name)
	}
	return q.writeItem(http.StatusOK, i)
}

// reach waits until everything up to version is here, for as long as a request may wait. If that
// takes a while it asks the collection's server, so that a version which no event of the collection
// will ever have does not keep the client waiting.
func (s *served) reach(ctx context.Context, version uint64) error {
	if s.catchUp == nil {
		return s.waitFor(ctx, version, patience)
	}
	if s.waitFor(ctx, version, patience/30) == nil {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, _ = s.catchUp(asked) // if it fails, the version does not come
	return s.waitFor(ctx, version, patience/30)
}

// maxOlder is how often the server must say that it is older than a version for that to be believed.
// One of its replicas may lag. An informer believes an older list as late.
const maxOlder = 3

// resolve returns when no doubt is left to which history version belongs: it is here, or the server
// has not come to it since its history was replaced. That takes no longer than other requests wait. A client that was told of a replaced history
// without need would go back to what is here.
func (s *served) resolve(ctx context.Context, version uint64) error {
	asked, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	for range maxOlder {
		if s.catchUp == nil || !s.doubts(version) {
			return nil
		}
		now, err := s.serverVersion(asked)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil:
			return errNotFresh(err)
		case now >= version:
			return s.waitFor(ctx, version, patience)
		}
	}
	return nil
}

// reachExactly is reach for a request that wants the state at version itself. One that cannot come is
// not waited for.
func (s *served) reachExactly(ctx context.Context, version uint64) error {
	if err := s.resolve(ctx, version); err != nil || !s.isAhead(version) {
		return err
	}
	return s.reach(ctx, version)
}

// errSilent is the cause of the end of a request to the server that has taken too long.
var errSilent = fmt.Errorf("the server has not answered in %v", patience)
