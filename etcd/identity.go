package etcd

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"strconv"
	"sync/atomic"
	"time"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// An identity reads and writes namespace, name, UID and version of a T.
type identity[T lw.Object] struct {
	meta []int // the reflect index of the embedded lw.Meta; nil: T is a metav1.Object
}

// newIdentity fails if T has no identity that can be written.
func newIdentity[T lw.Object]() (identity[T], error) {
	t := reflect.TypeFor[T]()
	isStruct := t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
	if isStruct && t.Implements(reflect.TypeFor[metav1.Object]()) {
		return identity[T]{}, nil
	}
	if isStruct {
		if index := embeddedMeta(t.Elem()); index != nil {
			return identity[T]{meta: index}, nil
		}
	}
	return identity[T]{}, fmt.Errorf("%v is no pointer to a struct that embeds lw.Meta or is a metav1.Object", t)
}

// embeddedMeta returns the reflect index of the lw.Meta that struct t embeds, directly or through
// other embedded structs that are exported; or nil.
func embeddedMeta(t reflect.Type) []int {
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.Anonymous || f.Type.Kind() != reflect.Struct:
		case f.Type == reflect.TypeFor[lw.Meta]():
			return f.Index
		case f.IsExported():
			if index := embeddedMeta(f.Type); index != nil {
				return append([]int{i}, index...)
			}
		}
	}
	return nil
}

// of returns the lw.Meta in obj, or nil if T is a metav1.Object.
func (id identity[T]) of(obj T) *lw.Meta {
	if id.meta == nil {
		return nil
	}
	return reflect.ValueOf(obj).Elem().FieldByIndex(id.meta).Addr().Interface().(*lw.Meta)
}

func (id identity[T]) setKey(obj T, key lw.Key) {
	if m := id.of(obj); m != nil {
		m.Namespace, m.Name = key.Namespace, key.Name
		return
	}
	m := any(obj).(metav1.Object)
	m.SetNamespace(key.Namespace)
	m.SetName(key.Name)
}

func (id identity[T]) setVersion(obj T, uid types.UID, version string) {
	if m := id.of(obj); m != nil {
		m.UID, m.ResourceVersion = uid, version
		return
	}
	m := any(obj).(metav1.Object)
	m.SetUID(uid)
	m.SetResourceVersion(version)
}

// complete writes into obj what the key and the revisions of e say. A value that says that it is
// another object is an error: it would be stored under one key, and deleted under another.
func (id identity[T]) complete(obj T, namespace, name string, e *entry) error {
	switch key := lw.KeyOf(obj); key {
	case lw.Key{Namespace: namespace, Name: name}:
	case lw.Key{}, lw.Key{Name: name}:
		id.setKey(obj, lw.Key{Namespace: namespace, Name: name})
	default:
		return fmt.Errorf("the value at %q says that it is %q", e.path, key)
	}
	version := strconv.FormatInt(e.modified, 10)
	uid := obj.GetUID()
	switch {
	case uid != "":
	case e.created == e.modified:
		uid = types.UID(version)
	default:
		uid = madeUID(e.created)
	}
	id.setVersion(obj, uid, version)
	return nil
}

// madeUID is the UID of an object whose value has none: a key that was deleted and created again
// is another object.
func madeUID(created int64) types.UID { return types.UID(strconv.FormatInt(created, 10)) }

// storedUID returns what is stored of a UID. One that the collection has made is not: the key has
// it again.
func storedUID(uid types.UID, created int64) types.UID {
	if uid == madeUID(created) {
		return ""
	}
	return uid
}

var errNotCopied = errors.New("its DeepCopyObject returns another type")

// bare returns a copy of obj with that UID and without a version, to be encoded. It may share parts
// with obj.
func (id identity[T]) bare(obj T, uid types.UID) (T, error) {
	var out T
	if o, ok := any(obj).(runtime.Object); ok {
		// An unstructured object is a map, so a copy of the struct would not do.
		if out, ok = o.DeepCopyObject().(T); !ok {
			return out, errNotCopied
		}
	} else {
		from := reflect.ValueOf(obj)
		to := reflect.New(from.Type().Elem())
		to.Elem().Set(from.Elem())
		out = to.Interface().(T)
	}
	id.setVersion(out, uid, "")
	return out, nil
}

// An entry is a key and its value, as one revision has them.
type entry struct {
	path, value []byte
	created     int64 // the revision that created the key
	modified    int64 // the revision of the last change
}

// entryOf returns kv as an entry. It shares the bytes.
func entryOf(kv *mvccpb.KeyValue) entry {
	return entry{path: kv.Key, value: kv.Value, created: kv.CreateRevision, modified: kv.ModRevision}
}

func formatVersion(revision int64) string { return strconv.FormatInt(revision, 10) }

// parseVersion returns a version as a revision; 0 for "" and "0".
func parseVersion(version string) (int64, error) {
	v, err := listopts.ParseVersion(version)
	return int64(min(v, 1<<63-1)), err
}

var seed = maphash.MakeSeed()

// recent has who objects were when they were last read. An Update that follows, as servers make it,
// then does not read once more. Keys that meet in a place take it from each other.
type recent [256]atomic.Pointer[seen]

// seen is believed for a second: a server that was restored from a backup in between may have
// another object at the same revisions.
type seen struct {
	at                time.Time
	path              string
	created, modified int64
	uid               types.UID
	sum               uint64 // of the value
}

func (r *recent) at(path string) *atomic.Pointer[seen] {
	return &r[maphash.String(seed, path)%uint64(len(r))]
}
