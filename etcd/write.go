package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
)

// Writes return the version that the write has. After [lw.Informer.WaitForResourceVersion] with it,
// every read of the informer shows the write.
//
// A write that fails with a [net.Error] may have been made: the server or the connection was lost
// before the answer. Create and an Update with a version can then be tried again, and say
// AlreadyExists or Conflict if they were.

// WithLease returns the collection whose writes attach the objects to the lease: they are deleted
// when it ends. [clientv3.NoLease] detaches them. It shares everything else with c.
func (c *Collection[T]) WithLease(id clientv3.LeaseID) *Collection[T] {
	leased := *c
	leased.lease, leased.hasLease = id, true
	return &leased
}

// Get returns the present object of key, or NotFound. The read is linearizable.
func (c *Collection[T]) Get(ctx context.Context, key lw.Key) (T, error) {
	obj, _, err := c.get(ctx, key)
	return obj, err
}

// get returns the present object of key, and what is stored of it.
func (c *Collection[T]) get(ctx context.Context, key lw.Key) (obj T, e *entry, err error) {
	resp, err := c.kv.Get(ctx, c.path(key))
	if err != nil {
		return obj, nil, explain(ctx, c.resource, err)
	}
	if len(resp.Kvs) == 0 {
		return obj, nil, c.notFound(key)
	}
	is := entryOf(resp.Kvs[0])
	if obj, err = c.object(&is); err == nil {
		c.recent.at(c.path(key)).Store(&seen{at: time.Now(), path: c.path(key), created: is.created, modified: is.modified, uid: obj.GetUID(), sum: maphash.Bytes(seed, is.value)})
	}
	return obj, &is, err
}

// unread returns the entry that obj, which has a version, is to replace, and the new value, if that
// is known without a read and is another value. Whether it is still true the write finds out.
func (c *Collection[T]) unread(obj T) (*entry, []byte) {
	path := c.path(lw.KeyOf(obj))
	s := c.recent.at(path).Load()
	if s == nil || s.path != path || time.Since(s.at) > time.Second || obj.GetResourceVersion() != formatVersion(s.modified) || obj.GetUID() != "" && obj.GetUID() != s.uid {
		return nil, nil
	}
	value, err := c.encode("update", obj, storedUID(s.uid, s.created))
	if err != nil || maphash.Bytes(seed, value) == s.sum {
		return nil, nil
	}
	return &entry{path: []byte(path), created: s.created, modified: s.modified}, value
}

// Create stores obj, which must not be there: AlreadyExists. It returns the object as it is stored,
// with its UID and version. An object without a UID gets one that no object of its key had before.
func (c *Collection[T]) Create(ctx context.Context, obj T) (T, error) {
	var zero T
	if err := c.validate("create", obj); err != nil {
		return zero, err
	}
	path := c.path(lw.KeyOf(obj))
	value, err := c.encode("create", obj, obj.GetUID())
	if err != nil {
		return zero, err
	}
	put := clientv3.OpPut(path, string(value), clientv3.WithLease(c.lease))
	resp, err := c.kv.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(path), "=", 0)).Then(put).Commit()
	if err != nil {
		return zero, explain(ctx, c.resource, err)
	}
	if !resp.Succeeded {
		return zero, apierrors.NewAlreadyExists(c.resource, lw.KeyOf(obj).Name)
	}
	now := resp.Header.Revision
	return c.object(&entry{path: []byte(path), value: value, created: now, modified: now})
}

// Update replaces the object of obj's key. It fails with NotFound, and with Conflict if obj's
// version or UID is neither empty nor that of the object that is there. It returns the object as it
// is stored. An update that changes nothing makes no version. A lease stays; see
// [Collection.WithLease].
func (c *Collection[T]) Update(ctx context.Context, obj T) (T, error) {
	var zero T
	if err := c.validate("update", obj); err != nil {
		return zero, err
	}
	if _, err := parseVersion(obj.GetResourceVersion()); err != nil {
		return zero, badRequest("update %s: %v", lw.KeyOf(obj), err)
	}
	if e, value := c.unread(obj); e != nil {
		if stored, err := c.replace(ctx, e, value); !errors.Is(err, errRaced) {
			return stored, err
		}
	}
	for {
		is, e, err := c.get(ctx, lw.KeyOf(obj))
		if e == nil {
			return zero, err
		}
		if err != nil {
			is = zero // it does not decode, and may be replaced
		}
		if err := c.precondition(obj, is, e); err != nil {
			return zero, err
		}
		uid := obj.GetUID()
		if is != zero {
			uid = is.GetUID()
		}
		value, err := c.encode("update", obj, storedUID(uid, e.created))
		if err != nil {
			return zero, err
		}
		if is != zero && bytes.Equal(value, e.value) && !c.hasLease {
			return is, nil
		}
		stored, err := c.replace(ctx, e, value)
		if !errors.Is(err, errRaced) {
			return stored, err
		}
	}
}

// errRaced says that another writer was faster.
var errRaced = errors.New("etcd: the object has changed")

// replace puts value in the place of e, or fails with errRaced.
func (c *Collection[T]) replace(ctx context.Context, e *entry, value []byte) (T, error) {
	var zero T
	path := string(e.path)
	lease := clientv3.WithIgnoreLease()
	if c.hasLease {
		lease = clientv3.WithLease(c.lease)
	}
	resp, err := c.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(path), "=", e.modified), clientv3.Compare(clientv3.CreateRevision(path), "=", e.created)).
		Then(clientv3.OpPut(path, string(value), lease)).Commit()
	if err != nil {
		return zero, explain(ctx, c.resource, err)
	}
	if !resp.Succeeded {
		return zero, errRaced
	}
	return c.object(&entry{path: e.path, value: value, created: e.created, modified: resp.Header.Revision})
}

// precondition returns a Conflict if want says that it is another object or another version than e.
// is is the object of e, or zero.
func (c *Collection[T]) precondition(want, is T, e *entry) error {
	var zero T
	key, version := lw.KeyOf(want), want.GetResourceVersion()
	uid := madeUID(e.created)
	if is != zero {
		uid = is.GetUID()
	}
	switch {
	case version != "" && version != "0" && version != formatVersion(e.modified):
		return c.conflict(key, "its version is %d, not %s", e.modified, version)
	case want.GetUID() != "" && want.GetUID() != uid:
		return c.conflict(key, "its UID is %s, not %s", uid, want.GetUID())
	}
	return nil
}

// Delete removes the object of key at that version, or at any if version is "". It fails with
// NotFound or Conflict. It returns the version of the deletion.
func (c *Collection[T]) Delete(ctx context.Context, key lw.Key, version string) (string, error) {
	revision, err := parseVersion(version)
	if err != nil {
		return "", badRequest("delete %s: %v", key, err)
	}
	path := c.path(key)
	remove := clientv3.OpDelete(path)
	txn := c.kv.Txn(ctx)
	if revision != 0 {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(path), "=", revision))
	}
	resp, err := txn.Then(remove).Else(clientv3.OpGet(path, clientv3.WithKeysOnly())).Commit()
	switch {
	case err != nil:
		return "", explain(ctx, c.resource, err)
	case resp.Succeeded && resp.Responses[0].GetResponseDeleteRange().Deleted == 0:
		return "", c.notFound(key)
	case resp.Succeeded:
		return formatVersion(resp.Header.Revision), nil
	}
	there := resp.Responses[0].GetResponseRange().Kvs
	if len(there) == 0 {
		return "", c.notFound(key)
	}
	return "", c.conflict(key, "its version is %d, not %s", there[0].ModRevision, version)
}

func (c *Collection[T]) notFound(key lw.Key) error {
	return apierrors.NewNotFound(c.resource, key.Name)
}

func (c *Collection[T]) conflict(key lw.Key, format string, args ...any) error {
	return apierrors.NewConflict(c.resource, key.Name, fmt.Errorf("the object has changed: "+format, args...))
}

// encode returns the value to store for obj.
func (c *Collection[T]) encode(op string, obj T, uid types.UID) ([]byte, error) {
	bare, err := c.identity.bare(obj, uid)
	if err == nil {
		var value []byte
		if value, err = c.opts.Codec.Encode(bare); err == nil {
			// What cannot be read again is not written: a write that fails has changed nothing.
			if _, err = c.object(&entry{path: []byte(c.path(lw.KeyOf(obj))), value: value}); err == nil {
				return value, nil
			}
		}
	}
	return nil, fmt.Errorf("etcd: %s %s: %w", op, lw.KeyOf(obj), err)
}

// validate refuses an object that has no key of its own: it is nil, or its key would have another
// shape, or codecs would make another one of it.
func (c *Collection[T]) validate(op string, obj T) error {
	var zero T
	if obj == zero {
		return badRequest("%s: nil %T", op, obj)
	}
	var errs field.ErrorList
	meta, key := field.NewPath("metadata"), lw.KeyOf(obj)
	if key.Name == "" {
		errs = append(errs, field.Required(meta.Child("name"), "an object needs a name"))
	}
	if strings.Contains(key.Name, "/") {
		errs = append(errs, field.Invalid(meta.Child("name"), key.Name, "a name has no slash"))
	}
	if !utf8.ValidString(key.Name) {
		errs = append(errs, field.Invalid(meta.Child("name"), key.Name, "a name is UTF-8"))
	}
	switch in := meta.Child("namespace"); {
	case c.opts.ClusterScoped && key.Namespace != "":
		errs = append(errs, field.Forbidden(in, "the collection has no namespaces"))
	case !c.opts.ClusterScoped && key.Namespace == "":
		errs = append(errs, field.Required(in, "the collection has namespaces"))
	case strings.Contains(key.Namespace, "/"):
		errs = append(errs, field.Invalid(in, key.Namespace, "a namespace has no slash"))
	case !utf8.ValidString(key.Namespace):
		errs = append(errs, field.Invalid(in, key.Namespace, "a namespace is UTF-8"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: c.resource.Resource}, key.Name, errs)
	}
	return nil
}
