package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// A Collection is the keys under one prefix of an etcd. It is an [lw.Source] with typed writes. All
// methods are safe for concurrent use, and any number of informers may follow one Collection.
//
// Its errors are those of k8s.io/apimachinery/pkg/api/errors where an API server has one for the
// case, such as NotFound, Conflict and Expired. All others are a [net.Error] that unwraps to the
// error of the client.
type Collection[T lw.Object] struct {
	client   *clientv3.Client
	kv       clientv3.KV // of writers
	reads    *reader     // of those who follow
	prefix   string
	opts     Options[T] // with the defaults
	resource schema.GroupResource
	identity identity[T]

	lease    clientv3.LeaseID // of what is written; see WithLease
	hasLease bool

	// These are shared with the results of WithLease.
	fingerprints *fingerprints
	heartbeats   *heartbeats
	recent       *recent
}

var _ lw.Writable[*lw.Meta] = (*Collection[*lw.Meta])(nil)

// Options are the settings of a [Collection], which copies them. A nil *Options and the zero value
// of each field mean the default.
type Options[T lw.Object] struct {
	// Codec turns values into objects and back. Default: JSON. [Kube] reads and writes what
	// kube-apiserver stores.
	Codec Codec[T]
	// ClusterScoped says that a key is prefix+name. Default: prefix+namespace+"/"+name.
	ClusterScoped bool
	// Resource names the collection in errors. Default: the last part of the prefix.
	Resource string
	// Progress is how often a watch asks the server how far it is. It bounds how old the version of
	// an idle collection becomes, which must stay younger than what the server compacts. A server
	// that hangs is noticed within twice as long. Default: 30 s.
	Progress time.Duration
}

// New returns the collection of the keys that begin with prefix, which ends with a slash. It makes
// no request. T is a pointer to a struct that embeds [lw.Meta], or a metav1.Object, as every API
// type is: a Collection writes the namespace, the name, the UID and the version into what it reads.
// For a T, a prefix or a client that cannot work the error is an [lw.ErrPermanent].
func New[T lw.Object](client *clientv3.Client, prefix string, opts *Options[T]) (*Collection[T], error) {
	c := &Collection[T]{client: client, prefix: prefix, fingerprints: &fingerprints{}, recent: &recent{}, heartbeats: &heartbeats{open: map[*heartbeat]struct{}{}}}
	if opts != nil {
		c.opts = *opts
	}
	var err error
	switch {
	case client == nil || client.ActiveConnection() == nil:
		err = errors.New("the client has no connection")
	case len(prefix) < 2 || !strings.HasSuffix(prefix, "/"):
		err = fmt.Errorf(`the prefix %q does not end with "/", or is nothing else`, prefix)
	case c.opts.Progress < 0:
		err = fmt.Errorf("Options.Progress is %v", c.opts.Progress)
	default:
		c.identity, err = newIdentity[T]()
	}
	if err == nil && c.opts.Codec == nil {
		c.opts.Codec, err = newJSON[T]()
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: New: %w: %w", lw.ErrPermanent, err)
	}
	if c.opts.Progress == 0 {
		c.opts.Progress = 30 * time.Second
	}
	if c.opts.Resource == "" {
		c.opts.Resource = path.Base(prefix)
	}
	c.resource = schema.GroupResource{Resource: c.opts.Resource}
	c.kv, c.reads = clientv3.NewKV(client), newReader(client.ActiveConnection())
	return c, nil
}

// Hints says that lists are not streamed, that StillHas can be asked, and how to ask for a
// bookmark.
func (c *Collection[T]) Hints() lw.SourceHints {
	h := lw.SourceHints{NoStream: true, StillHas: c.had, Progress: c.heartbeats.soon}
	if d, ok := c.opts.Codec.(interface{ decoder() string }); ok {
		h.Decoder = d.decoder()
	}
	return h
}

// path returns the key in etcd of the object of key.
func (c *Collection[T]) path(key lw.Key) string {
	if c.opts.ClusterScoped {
		return c.prefix + key.Name
	}
	return c.prefix + key.Namespace + "/" + key.Name
}

// split returns the namespace and the name that path has. ok is false if path has another shape.
// Both are parts of path.
func (c *Collection[T]) split(path []byte) (namespace, name []byte, ok bool) {
	rest := path[min(len(c.prefix), len(path)):]
	if !c.opts.ClusterScoped {
		if namespace, rest, ok = bytes.Cut(rest, []byte{'/'}); !ok || len(namespace) == 0 {
			return nil, nil, false
		}
	}
	return namespace, rest, len(rest) > 0 && bytes.IndexByte(rest, '/') < 0
}

// keyOf returns the key of the object at path. A path of another shape has one that no object has:
// an object without a namespace in a collection with namespaces, or a name with a slash. It has a
// name in any case, without which nobody could name it in an error.
func (c *Collection[T]) keyOf(path []byte) lw.Key {
	if namespace, name, ok := c.split(path); ok {
		return lw.Key{Namespace: string(namespace), Name: string(name)}
	}
	if len(path) <= len(c.prefix) {
		return lw.Key{Name: c.prefix}
	}
	return lw.Key{Name: string(path[len(c.prefix):])}
}

// object decodes e. The error is an *lw.Error with the object's key.
func (c *Collection[T]) object(e *entry) (T, error) {
	var zero T
	namespace, name, ok := c.split(e.path)
	if !ok {
		return zero, c.setAside(e, fmt.Errorf("the key %q is not of the form %q", e.path, c.path(lw.Key{Namespace: "namespace", Name: "name"})))
	}
	obj, err := c.opts.Codec.Decode(e.value)
	if err != nil {
		return zero, c.setAside(e, err)
	}
	if obj == zero {
		return zero, c.setAside(e, errors.New("the value is no object"))
	}
	if err := c.identity.complete(obj, string(namespace), string(name), e); err != nil {
		return zero, c.setAside(e, err)
	}
	return obj, nil
}

// setAside returns err as the error of the object that e has.
func (c *Collection[T]) setAside(e *entry, err error) error {
	return &lw.Error{Op: "decode", Key: c.keyOf(e.path), Err: err}
}

// A selection is what a list or a watch is about.
type selection struct {
	from, end string // the keys from from on that are before end; end "": the key from alone
	filter    *listopts.Filter
	byKey     *listopts.Filter // the part of filter that the key alone decides
	// byLabels says that the key alone does not decide whether an object is selected.
	byLabels bool
	// all says that every one of the keys is selected.
	all bool
}

// labeled is implemented by objects that have labels.
type labeled interface{ GetLabels() map[string]string }

// selection reads the selectors of opts. A shard selector is ignored, which is allowed: an
// [lw.Shard] selects by itself.
func (c *Collection[T]) selection(opts metav1.ListOptions) (*selection, error) {
	opts.ShardSelector = ""
	filter, err := listopts.NewFilter("", opts, nil)
	if err != nil {
		return nil, err
	}
	byKey, err := listopts.NewFilter("", metav1.ListOptions{FieldSelector: opts.FieldSelector}, nil)
	if err != nil {
		return nil, err
	}
	s := &selection{filter: filter, byKey: byKey, byLabels: opts.LabelSelector != ""}
	var zero T
	if _, ok := any(zero).(labeled); s.byLabels && !ok {
		return nil, badRequest("label selector %q: %T has no GetLabels", opts.LabelSelector, zero)
	}
	namespace, name := filter.Namespace(), filter.Name()
	s.all = !s.byLabels && (opts.FieldSelector == "" || !c.opts.ClusterScoped && opts.FieldSelector == "metadata.namespace="+namespace)
	switch {
	case c.opts.ClusterScoped && name != "":
		s.from = c.prefix + name
	case c.opts.ClusterScoped || namespace == "":
		s.from, s.end = c.prefix, clientv3.GetPrefixRangeEnd(c.prefix)
	case name != "":
		s.from = c.path(lw.Key{Namespace: namespace, Name: name})
	default:
		s.from = c.prefix + namespace + "/"
		s.end = clientv3.GetPrefixRangeEnd(s.from)
	}
	return s, nil
}

// selects reports whether obj is selected.
func selects[T lw.Object](s *selection, obj T) bool {
	if !s.filter.Selects() {
		return true
	}
	o := listopts.Object{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if l, ok := any(obj).(labeled); ok {
		o.Labels = l.GetLabels()
	}
	return s.filter.Matches(o, nil)
}

// selectsKey reports whether the object of key may be selected, as far as its key decides that.
func (s *selection) selectsKey(key lw.Key) bool {
	return s.byKey.Matches(listopts.Object{Namespace: key.Namespace, Name: key.Name}, nil)
}

// contains reports whether path is among the keys that are read.
func (s *selection) contains(path string) bool {
	return path == s.from || path > s.from && path < s.end
}

// had is the StillHas of [lw.SourceHints].
func (c *Collection[T]) had(ctx context.Context, obj lw.Meta, version string) (bool, error) {
	position, err := parseVersion(version)
	if err != nil {
		return false, badRequest("%v", err)
	}
	resp, err := c.reads.get(ctx, c.path(lw.KeyOf(&obj)), clientv3.WithRev(position))
	if err != nil {
		return false, readError(ctx, c.resource, err, position)
	}
	if len(resp.Kvs) == 0 {
		return false, nil
	}
	e := entryOf(resp.Kvs[0])
	if formatVersion(e.modified) != obj.ResourceVersion {
		return false, nil
	}
	if obj.UID == "" || obj.UID == madeUID(e.created) {
		return true, nil
	}
	is, err := c.object(&e)
	return err == nil && is.GetUID() == obj.UID, nil
}
