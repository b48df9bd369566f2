package etcd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
	"github.com/go-lw/lw/internal/request"
)

// List yields the objects in the order of their keys. All pages show one revision. The read is
// linearizable, except at any version ("0"): then the member that is asked answers as it is.
// Label selectors need a T with GetLabels; field selectors may be of metadata.name and
// metadata.namespace.
func (c *Collection[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	if err := listopts.ValidateList(opts); err != nil {
		return metav1.ListMeta{}, err
	}
	s, err := c.selection(opts)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	l := &listing[T]{c: c, selection: s, limit: max(opts.Limit, 0), from: s.from, yield: yield}
	if opts.Continue != "" {
		err = l.resume(opts)
	} else {
		err = l.begin(opts)
	}
	if err != nil {
		return metav1.ListMeta{}, err
	}
	next, remaining, err := l.run(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	if !request.IsProbe(ctx) {
		c.fingerprints.afterList(ctx, l.revision, &l.newest, opts.Continue != "")
	}
	return metav1.ListMeta{ResourceVersion: formatVersion(l.revision), Continue: next, RemainingItemCount: remaining}, nil
}

// A listing is one call of List.
type listing[T lw.Object] struct {
	c *Collection[T]
	*selection
	yield func(T, error) error

	limit    int64  // of objects; 0: none
	from     string // where the next read begins
	revision int64  // that is read; 0: the present one
	atLeast  int64  // the least revision to answer with
	any      bool   // the member that is asked need not know the newest revision

	newest lastSeen
}

// begin sets what the version of opts asks for.
func (l *listing[T]) begin(opts metav1.ListOptions) error {
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return badRequest("list: %v", err)
	}
	switch {
	case listopts.Exact(opts):
		l.revision = version
	default:
		l.atLeast, l.any = version, opts.ResourceVersion == "0"
	}
	return nil
}

// A token says where the next page begins.
type token struct {
	Revision int64  `json:"rev"`
	Next     []byte `json:"next"` // the first key that may follow; it may be no UTF-8
}

// resume goes on where a page ended.
func (l *listing[T]) resume(opts metav1.ListOptions) error {
	if v := opts.ResourceVersion; v != "" && v != "0" {
		return badRequest("list: a resource version is not allowed with a continue token, which has its own")
	}
	var t token
	data, err := base64.RawURLEncoding.DecodeString(opts.Continue)
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	switch {
	case err != nil:
		return badRequest("list: the continue token is none: %v", err)
	case t.Revision <= 0 || !strings.HasPrefix(string(t.Next), l.c.prefix):
		return badRequest("list: the continue token is of another collection")
	}
	l.revision, l.from = t.Revision, max(string(t.Next), l.from)
	return nil
}

func (l *listing[T]) token(next string) string {
	data, err := json.Marshal(token{l.revision, []byte(next)})
	if err != nil {
		panic(err) // cannot happen: it has a number and bytes
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// run reads until the list or the page is whole. It returns the token of the next page, and how
// many objects are behind this one if the server knows that. A page of which a selector takes too
// little is filled up from the ones behind it.
func (l *listing[T]) run(ctx context.Context) (next string, remaining *int64, err error) {
	for left := l.limit; ; {
		if l.over() {
			return "", nil, nil
		}
		page, err := l.read(ctx)
		if err != nil {
			return "", nil, err
		}
		for i := range page.entries {
			if err := ctx.Err(); err != nil {
				return "", nil, context.Cause(ctx)
			}
			e := &page.entries[i]
			l.from = string(e.path) + "\x00"
			took, err := l.item(e)
			if err != nil {
				return "", nil, err
			}
			if left -= took; took > 0 && left == 0 && (page.more || i+1 < len(page.entries)) {
				if behind := page.count - int64(i+1); l.all {
					remaining = &behind
				}
				return l.token(l.from), remaining, nil
			}
		}
		if !page.more {
			return "", nil, nil
		}
	}
}

// over reports whether no key is left to read. Without it etcd would take a start at the end for a
// read of that one key, and a token of another list could lead out of the selected keys.
func (l *listing[T]) over() bool {
	if l.end == "" {
		return l.from != l.selection.from
	}
	return l.from >= l.end
}

// item yields the object of e, and returns 1 if it is selected, else 0.
func (l *listing[T]) item(e *entry) (took int64, err error) {
	l.newest.see(e)
	obj, err := l.c.object(e)
	if err == nil && !selects(l.selection, obj) || err != nil && !l.selectsKey(l.c.keyOf(e.path)) {
		return 0, nil
	}
	return 1, l.yield(obj, err)
}

// A page is the answer to one read.
type page struct {
	entries []entry
	more    bool  // there are further keys
	count   int64 // of the entries and those behind them
}

// read makes the next request. The first one sets the revision of the list.
func (l *listing[T]) read(ctx context.Context) (*page, error) {
	opts := []clientv3.OpOption{clientv3.WithLimit(l.limit)}
	if l.end != "" {
		opts = append(opts, clientv3.WithRange(l.end))
	}
	if l.revision > 0 {
		opts = append(opts, clientv3.WithRev(l.revision))
	} else if l.any {
		opts = append(opts, clientv3.WithSerializable())
	}
	resp, err := l.c.reads.get(ctx, l.from, opts...)
	if err != nil {
		return nil, readError(ctx, l.c.resource, err, l.revision)
	}
	if l.revision == 0 {
		// The header has the present revision, which is that of the first page alone.
		if l.revision = resp.Header.Revision; l.revision < l.atLeast {
			return nil, listopts.TooLarge(uint64(l.atLeast), uint64(l.revision))
		}
	}
	p := &page{entries: make([]entry, len(resp.Kvs)), more: resp.More, count: resp.Count}
	for i, kv := range resp.Kvs {
		p.entries[i] = entryOf(kv)
	}
	return p, nil
}
