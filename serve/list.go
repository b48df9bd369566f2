package serve

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/serve/internal/order"
)

// list answers with a list, or with one page of a list. It waits for the state before it takes its
// turn: while the server is silent, who asks for what is here must not wait behind those who do
// not.
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
	done, err := q.h.limiter.beginList(q.r.Context(), q.h.opts.Client(q.r), &q.h.opts.Limits)
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
		of = moment{token.Version != listopts.Inconsistent, uint64(token.Version), token.From(q.target.Namespace), &token}
		if !of.exact {
			return of, q.collection.newest(ctx)
		}
		return of, q.collection.reachExactly(ctx, of.version)
	}
	version, err := listopts.ListVersion(q.opts.ResourceVersion)
	switch {
	case err != nil:
		return of, err
	case q.opts.ResourceVersion == "" && q.attributes.Verb == "deletecollection":
		return of, q.collection.caughtUp(ctx, q.collection.writes.catchUp) // also with FreshHere
	case q.opts.ResourceVersion == "":
		return of, q.collection.newest(ctx)
	case listopts.Exact(q.opts):
		return moment{exact: true, version: version}, q.collection.reachExactly(ctx, version)
	case version > 0:
		return of, q.collection.reach(ctx, version)
	}
	return of, nil
}

// page finds the items of a moment that the request asks for.
func (q *request) page(f *filter, of moment) (*page, error) {
	era := q.collection.history.currentEra()
	state, version, err := q.collection.stateAt(of)
	if err != nil {
		return nil, err
	}
	p := &page{meta: metav1.ListMeta{ResourceVersion: listopts.FormatVersion(version), ShardInfo: f.Shard()}}
	limit := int(min(listopts.Limit(q.opts), math.MaxInt32))
	prefix := listopts.Prefix(f.Namespace())
	p.era = era
	p.whole = prefix == "" && of.start == "" && !f.Selects() && q.collection.history.currentEra() == era
	if p.whole && limit == 0 {
		p.items = make([]*item, 0, state.Len())
	}
	for i := range f.selected(&state, of.start) {
		if limit == 0 || len(p.items) < limit {
			p.items = append(p.items, i)
			continue
		}
		p.whole = false
		p.meta.Continue = listopts.After(version, q.target.Namespace, p.items[limit-1].path).Encode()
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
func (c *collection) stateAt(of moment) (order.List[*item], uint64, error) {
	if of.exact {
		state, err := c.history.at(of.version)
		// Whoever has pages of a history that was replaced must not go on with those of another one.
		if of.token != nil && apierrors.IsResourceExpired(err) && !apierrors.HasStatusCause(err, listopts.CauseReplaced) {
			err = listopts.ExpiredToken(of.token.Start)
		}
		return state, of.version, err
	}
	state, version, ok := c.history.present()
	if !ok { // since the request came
		return state, 0, c.notSynced()
	}
	return state, version, nil
}

// get answers with one object.
func (q *request) get() error {
	c, ctx := q.collection, q.r.Context()
	version, err := listopts.ListVersion(q.opts.ResourceVersion)
	switch {
	case err != nil:
		return err
	case q.opts.ResourceVersion == "":
		err = q.collection.newest(ctx)
	case version > 0:
		err = c.reach(ctx, version)
	}
	if err != nil {
		return err
	}
	i, ok := c.history.current(q.key())
	if !ok || c.cluster == (q.target.Namespace != "") {
		return apierrors.NewNotFound(c.groupResource(), q.target.Name)
	}
	return q.writeItem(http.StatusOK, i)
}

// filter returns what the selectors of the request select.
func (q *request) filter() (*filter, error) {
	c := q.collection
	f, err := c.filters.parse(c.resource, q.target.Namespace, q.opts, func() string { return q.h.opts.Client(q.r) })
	if err != nil {
		return nil, err
	}
	if q.opts.LabelSelector != "" && c.labels == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("label selector %q: %s have no labels", q.opts.LabelSelector, c.name))
	}
	return f, nil
}
