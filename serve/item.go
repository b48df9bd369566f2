package serve

import (
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// An item is one version of an object of a collection, without its type. All lists and events that
// have the object share the item, and with it its encodings. It is not changed once it is in a
// history, but for the encodings.
type item struct {
	path    string // what lists are ordered by; see listopts.Path
	version uint64 // the resource version that clients see
	uid     types.UID
	labels  map[string]string
	fields  []string // the values of resource.fieldNames
	obj     any      // the T
	was     *item    // if this is a deletion: the item that was deleted
	failed  *failure // what is known of the object is not all; nil: it is

	over *event // the event of the history that has ended the item, or nil; guarded by history.mu

	encodings atomic.Pointer[encoding]
}

// An encoding is the bytes of an item in one format. Most items have one, so a list is enough.
type encoding struct {
	format wire.Format // whole objects, or metadata alone
	data   []byte
	next   *encoding
}

// key returns the key of the item.
func (i *item) key() lw.Key {
	namespace, name, ok := strings.Cut(i.path, "/")
	if !ok {
		namespace, name = "", i.path
	}
	return lw.Key{Namespace: namespace, Name: name}
}

// encoded returns the bytes of the item in a format, or nil if nobody has encoded it yet.
func (i *item) encoded(f wire.Format) []byte {
	for e := i.encodings.Load(); e != nil; e = e.next {
		if e.format == f {
			return e.data
		}
	}
	return nil
}

// keep keeps data as the item's encoding. The caller is the only one that encodes it; see
// encoder.locks, and [history.keep].
func (i *item) keep(f wire.Format, data []byte) {
	i.encodings.Store(&encoding{f, data, i.encodings.Load()})
}

// adds returns how many bytes an encoding adds to an item: none if it is what the object came as.
func (i *item) adds(data []byte) int64 {
	if o, raw := i.obj.(*Object); raw && len(data) > 0 && len(o.data) > 0 && &data[0] == &o.data[0] {
		return 0
	}
	return int64(len(data))
}

// encodedBytes returns how many bytes its encodings add to an item.
func (i *item) encodedBytes() (n int64) {
	for e := i.encodings.Load(); e != nil; e = e.next {
		n += i.adds(e.data)
	}
	return n
}

// as returns the item with another version, for the event of its deletion.
func (i *item) as(version uint64) *item {
	return &item{path: i.path, version: version, uid: i.uid, labels: i.labels, fields: i.fields, obj: i.obj, was: i, failed: i.failed}
}

// identity returns what clients know the item by.
func (i *item) identity() identity {
	key := i.key()
	return identity{key.Namespace, key.Name, string(i.uid)}
}

// An event is one change of a collection. All watches that send it share it, and its frames.
type event struct {
	version  uint64
	old, new *item // old is nil for a creation, new for a deletion

	// bytes are those of frames, and of old, which nothing else keeps; guarded by history.mu once the
	// history has the event.
	bytes   int64
	dropped bool // the history has it no more; guarded by history.mu

	mu     sync.Mutex   // guards frames
	frames []eventFrame // the few that were asked for
}

// drop says that the history has the event no more. What it has ended counts no more either.
func (e *event) drop() {
	e.dropped = true
	if e.old != nil {
		e.old.over = nil
	}
}

// A frame is one event of a watch in one format, as it goes over the connection. It is made once
// for all watches that send it, and not changed.
type frame struct {
	chunk    []byte // of HTTP/1.1: the length in hexadecimal digits, the event, and a line break
	from, to int    // the place of the event in chunk
}

// An eventFrame is a frame of an event, with what it is for. Of an event there may be several: a
// watch with a selector may see a change as a creation.
type eventFrame struct {
	format format
	typ    watch.EventType
	frame  frame
	err    error
}

// A failure is the error of a function of the user's that says what selectors see of an object. All
// who would get the object get it, as with an error of its encoding.
type failure struct {
	err    error
	labels bool // they are not known; if not, it is the fields
}
