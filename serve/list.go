package serve

import (
	"context"
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
			if i, ok := state.Get(prefix + name); ok && i.path >= start && f.matches(i) {
				yield(i)
			}
			return
		}
		for path, i := range state.From(start) {
			if !strings.HasPrefix(path, prefix) || f.matches(i) && !yield(i) {
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

// list answers with a list, or with one page of a list.
func (q *request) list() error {
	done, err := q.beginList()
	if err != nil {
		return err
	}
	defer done()
	p, err := q.page()
	if err != nil {
		return err
	}
	return q.writeList(p)
}

// page finds the state and the items that the request asks for.
func (q *request) page() (*page, error) {
	if err := listopts.ValidateList(q.opts); err != nil {
		return nil, err
	}
	f, err := q.filter()
	if err != nil {
		return nil, err
	}
	era := q.served.currentEra()
	state, version, start, err := q.state()
	if err != nil {
		return nil, err
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: listopts.FormatVersion(version), ShardInfo: f.Shard()}}
	limit := int(min(listopts.Limit(q.opts), math.MaxInt32))
	prefix := listopts.Prefix(f.Namespace())
	p.era = era
	p.whole = prefix == "" && start == "" && !f.Selects() && q.served.currentEra() == era
	if p.whole && limit == 0 {
		p.items = make([]*item, 0, state.Len())
	}
	for i := range f.selected(&state, start) {
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

// state returns the state that the request asks for, its version, and the path at which the list
// begins.
func (q *request) state() (state order.List[*item], version uint64, start string, err error) {
	s, ctx := q.served, q.r.Context()
	if q.opts.Continue != "" {
		token, err := listopts.Continued(q.opts)
		if err != nil {
			return state, 0, "", err
		}
		start = token.From(q.target.key.Namespace)
		if token.Version == listopts.Inconsistent {
			if err := q.newest(ctx); err != nil {
				return state, 0, "", err
			}
			state, version, _ = s.present()
			return state, version, start, nil
		}
		version = uint64(token.Version)
		state, err = s.reachedAt(ctx, version)
		// Whoever has pages of a history that was replaced must not go on with those of another one.
		if apierrors.IsResourceExpired(err) && !apierrors.HasStatusCause(err, listopts.CauseReplaced) {
			err = listopts.ExpiredToken(token.Start)
		}
		return state, version, start, err
	}
	version, err = listopts.ParseVersion(q.opts.ResourceVersion)
	if err != nil {
		return state, 0, "", apierrors.NewBadRequest(err.Error())
	}
	switch {
	case q.opts.ResourceVersion == "":
		err = q.newest(ctx)
	case listopts.Exact(q.opts):
		state, err = s.reachedAt(ctx, version)
		return state, version, "", err
	case version > 0:
		err = s.reach(ctx, version)
	}
	if err != nil {
		return state, 0, "", err
	}
	state, version, _ = s.present()
	return state, version, "", nil
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
// has not come to it since its history was replaced. A client that was told of a replaced history
// without need would go back to what is here.
func (s *served) resolve(ctx context.Context, version uint64) error {
	for range maxOlder {
		if s.catchUp == nil || !s.doubts(version) {
			return nil
		}
		asked, cancel := context.WithTimeout(ctx, patience)
		now, err := s.serverVersion(asked)
		cancel()
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

// reachedAt returns the state at version, for which it waits as reach does.
func (s *served) reachedAt(ctx context.Context, version uint64) (order.List[*item], error) {
	if err := s.resolve(ctx, version); err != nil {
		return order.List[*item]{}, err
	}
	state, err := s.at(version)
	if !apierrors.IsTimeout(err) {
		return state, err
	}
	if err := s.reach(ctx, version); err != nil {
		return state, err
	}
	return s.at(version)
}
