package etcd

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// errTimeout ends a watch whose time is over.
var errTimeout = errors.New("etcd: the time of the watch is over")

// Watch yields the changes after opts.ResourceVersion, on a stream of its own. Before, it makes one
// read, which shows whether the server still has the history of that version; see [lw.ErrRewound].
// Without a version it yields the present objects first, as Added. It returns nil when
// opts.TimeoutSeconds have passed.
func (c *Collection[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(lw.WatchEvent[T]) error) error {
	if err := listopts.ValidateWatch(opts); err != nil {
		return err
	}
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		return listopts.InvalidOptions(field.ErrorList{
			field.Forbidden(field.NewPath("sendInitialEvents"), "lists of an etcd are not streamed: pages show one revision too"),
		})
	}
	s, err := c.selection(opts)
	if err != nil {
		return err
	}
	position, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return listopts.WithoutReason(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if t := opts.TimeoutSeconds; t != nil && *t > 0 {
		defer time.AfterFunc(time.Duration(min(*t, 1<<32))*time.Second, func() { cancel(errTimeout) }).Stop()
	}
	w := &watcher[T]{c: c, selection: s, position: position, bookmarks: opts.AllowWatchBookmarks, yield: yield, cancel: cancel}
	if position == 0 {
		err = w.present(ctx, opts)
	} else {
		w.seen = c.fingerprints.at(ctx, position, s)
		err = c.verify(ctx, position, &w.seen)
	}
	if err == nil {
		err = w.follow(ctx)
	}
	if w.position >= w.seenAt {
		c.fingerprints.afterWatch(ctx, w.position, &w.seen)
	}
	switch y, ok := err.(*yieldError); {
	case ok:
		return y.err
	case context.Cause(ctx) == errTimeout:
		return nil
	}
	return err
}

// A watcher is one call of Watch. Only its goroutine uses it.
type watcher[T lw.Object] struct {
	c *Collection[T]
	*selection
	bookmarks bool
	yield     func(lw.WatchEvent[T]) error
	cancel    context.CancelCauseFunc

	// position is the revision up to which all changes were yielded. seen is what was seen up to the
	// revision seenAt, of which some may not be yielded.
	position int64
	seen     lastSeen
	seenAt   int64

	begun int64 // the position at which the stream was opened

	// reached is the newest revision that the member on the other side is known to have. It may be
	// less than the position, if the member lags. It is 0 until the server has created the watch.
	reached int64

	heart *heartbeat
	early bool // the server has answered a request for progress before it created the watch

	pending pendingEvent[T] // see watch_event.go
}

// A yieldError is the error of yield, on its way through functions that look at errors.
type yieldError struct{ err error }

func (e *yieldError) Error() string { return e.err.Error() }

// present yields what there is, for a watch without a version.
func (w *watcher[T]) present(ctx context.Context, opts metav1.ListOptions) error {
	selectors := metav1.ListOptions{LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector}
	meta, err := w.c.List(ctx, selectors, func(obj T, err error) error {
		return w.yielded(w.added(obj, err))
	})
	if err != nil {
		return err
	}
	w.position, _ = parseVersion(meta.ResourceVersion)
	w.seen = w.c.fingerprints.at(ctx, w.position, w.selection)
	return nil
}

// yielded calls yield.
func (w *watcher[T]) yielded(ev lw.WatchEvent[T]) error {
	if err := w.yield(ev); err != nil {
		return &yieldError{err}
	}
	return nil
}

// follow opens the stream and reads from it until it ends. Whoever reads is the goroutine of Watch;
// another one asks for progress.
func (w *watcher[T]) follow(ctx context.Context) error {
	stream, err := w.open(ctx)
	if err != nil {
		return explain(ctx, w.c.resource, err)
	}
	p := newHeartbeat(w.c.opts.Progress)
	w.heart = p
	p.waits()
	var others sync.WaitGroup
	defer others.Wait()
	defer w.cancel(nil)
	others.Go(func() {
		p.run(ctx, func() error {
			return stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
		}, w.cancel)
	})
	w.c.heartbeats.add(p)
	defer w.c.heartbeats.remove(p)
	for {
		p.waits()
		resp, err := stream.Recv()
		p.came()
		switch {
		case err == io.EOF && ctx.Err() == nil:
			return nil
		case err != nil:
			return w.failed(ctx, err)
		}
		if err := w.response(ctx, resp); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return w.failed(ctx, ctx.Err())
		}
	}
}

// failed explains why a stream has ended.
func (w *watcher[T]) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return &networkError{cause}
	}
	return explain(ctx, w.c.resource, err)
}

// open begins a stream with one watch. It begins at the position, whose events are passed over, and
// not behind it: a server that has not reached the beginning of a watch does not answer requests
// for progress, and where nobody writes it never does.
func (w *watcher[T]) open(ctx context.Context) (pb.Watch_WatchClient, error) {
	stream, err := w.c.reads.watch(ctx)
	if err != nil {
		return nil, err
	}
	w.begun = w.position
	create := &pb.WatchCreateRequest{Key: []byte(w.from), StartRevision: w.begun, PrevKv: w.byLabels}
	if w.end != "" {
		create.RangeEnd = []byte(w.end)
	}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}})
	if err == io.EOF {
		_, err = stream.Recv() // which has the reason
	}
	return stream, err
}

// response handles one message of the server.
func (w *watcher[T]) response(ctx context.Context, resp *pb.WatchResponse) error {
	now := resp.Header.GetRevision()
	switch {
	case resp.CompactRevision != 0:
		return apierrors.NewResourceExpired("the revision " + formatVersion(w.position) + " was compacted, up to " + formatVersion(resp.CompactRevision))
	case resp.Canceled:
		return explain(ctx, w.c.resource, canceled(resp.CancelReason))
	case resp.Created:
		return w.created(ctx, now)
	case len(resp.Events) > 0:
		w.reached = max(w.reached, now)
		return w.events(resp.Events)
	}
	return w.progress(now)
}

// created handles the answer to the request for the watch. A member that has not reached the
// position lags, or was restored: then the cluster has not reached it either.
func (w *watcher[T]) created(ctx context.Context, now int64) error {
	if w.early {
		w.heart.soon()
	}
	if w.reached = now; now >= w.position {
		return nil
	}
	return w.c.verify(ctx, w.position, &lastSeen{})
}

// progress handles the answer to a request for the revision. All events up to it have come, unless
// the server has not said yet that the watch is created: until then it holds events back, but not
// such answers.
func (w *watcher[T]) progress(now int64) error {
	switch {
	case w.reached == 0:
		w.early = true
		return nil
	case now < w.reached:
		return rewound(w.reached, now, "the server is at revision %d, and was at %d on the same watch", now, w.reached)
	case now < w.position:
		return nil // the member lags
	}
	w.reached = now
	if !w.bookmarks || now == w.position {
		return nil
	}
	if err := w.yielded(lw.WatchEvent[T]{Type: bookmark, ResourceVersion: formatVersion(now)}); err != nil {
		return err
	}
	w.position = now
	return nil
}

// verify asks the cluster whether it has the history in which position was read: whether the
// newest key of seen is as it was. Without one it is asked whether it has reached the position. The
// read is linearizable, so a member that lags catches up first. The error is rewound, Expired if
// the position was compacted, or that of the request.
func (c *Collection[T]) verify(ctx context.Context, position int64, seen *lastSeen) error {
	var was keyState
	var opts []clientv3.OpOption
	if seen.n > 0 {
		was = seen.keys[0]
	} else {
		was.path, opts = []byte(c.prefix), append(opts, clientv3.WithCountOnly())
	}
	resp, err := c.reads.get(ctx, string(was.path), append(opts, clientv3.WithRev(position))...)
	if rpctypes.Error(err) == rpctypes.ErrFutureRev && ctx.Err() == nil {
		return rewound(position, 0, "the server has not reached revision %d, which was read", position)
	}
	if err != nil {
		return explain(ctx, c.resource, err)
	}
	var is keyState
	for _, kv := range resp.Kvs {
		e := entryOf(kv)
		is.set(&e)
	}
	if seen.n == 0 || is.modified == was.modified && is.sum == was.sum {
		return nil
	}
	before, now := "was gone", "is gone"
	if was.modified > 0 {
		before = "was of revision " + formatVersion(was.modified)
	}
	switch {
	case is.modified == was.modified:
		now = "has another value"
	case is.modified > 0:
		now = "is of revision " + formatVersion(is.modified)
	}
	return rewound(position, resp.Header.Revision, "the server has another history: at revision %d %s %s, and now it %s", position, was.path, before, now)
}
