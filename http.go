package lw

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/rest"
)

// HTTP is a [Source] over an API server's REST interface. It needs no generated client: T is a
// pointer to any struct with the JSON tags of the API's type, which may have only the fields that a
// program reads, or *unstructured.Unstructured, or *metav1.PartialObjectMetadata. If its fields
// have the protobuf tags of the API's type as well, HTTP asks for protobuf.
//
// HTTP decodes a response while it arrives. An object that does not fit T is an error of its own,
// with its key. An object of more than 64 MiB ends the request. An Unmarshal method of T may run
// for different objects at the same time. As with a generated client, the Kind and APIVersion of a
// typed object are empty.
//
// The fields must not be changed once the HTTP is in use. docs/sources.md says more of each.
type HTTP[T Identified] struct {
	URL    string       // of the collection, in all namespaces or in one; its query may have selectors
	Client *http.Client // sends the requests, and should have no Timeout; default: http.DefaultClient
	Accept string       // the header; default: protobuf if T can be read from it, else JSON
	Kind   string       // of all objects; default: T's name if it has a TypeMeta, else what the list says
	Type   reflect.Type // the pointer type to decode into if T is an interface; default: T
	Header http.Header  // of every request, but not of one that a redirect sends to another server
	Drop   []string     // fields to skip, by their path in JSON, such as "metadata.managedFields"
	Only   Fields       // fields to keep, and the identity; the rest is skipped; default: all
	Share  bool         // objects share equal parts, so that a forbidden change shows in several
	Whole  bool         // each version is decoded whole; default: its unchanged parts are the last's
	// Standard lets the decoders of apimachinery make the objects in the place of lw's own, as the
	// environment LW_DECODE=standard does for all sources. docs/performance.md says what it costs.
	Standard bool

	packed bool // [Pack] keeps the bytes of its objects

	mu sync.Mutex
	// idle is the decoder between requests. It is kept because it learns from the objects that it
	// decodes. It is nil while a request uses it. Guarded by mu.
	idle standard.Decoder
	// teller is the decoder of Told, between its calls. Guarded by mu.
	teller standard.Decoder
	// kinds checks that the objects of all responses are of one kind and one API group. It is nil
	// before the first request, and then shared by all decoders. Guarded by mu.
	kinds *decode.Kinds
}

// Hints says who decodes, and has [StillHasByList].
func (h *HTTP[T]) Hints() SourceHints {
	part, _ := h.part()
	return SourceHints{Decoder: standard.Name(h.Standard), Partial: part.Selector != nil, StillHas: func(ctx context.Context, obj Meta, version string) (bool, error) {
		return StillHasByList(ctx, h, obj, version)
	}}
}

// part returns the part that the query of URL asks for.
func (h *HTTP[T]) part() (part shardPart[T], err error) {
	if !strings.Contains(h.URL, "shardSelector") {
		return part, nil
	}
	u, err := url.Parse(h.URL)
	if err == nil {
		part.Selector, err = parseShard(u.Query().Get("shardSelector"))
	}
	if err != nil {
		return part, h.cannotDecode(err)
	}
	return part, nil
}

// List lists the collection, or the page that opts asks for. If the server refused, errors.As finds
// an APIStatus in the error. A list that is cut off is an error, never a shorter list. Every error
// names the URL, without its password, and of its query only the selectors. It is an [ErrPermanent]
// if a field of h, a selector or a tag of T is invalid, or if T is not a pointer to a struct.
func (h *HTTP[T]) List(ctx context.Context, opts metav1.ListOptions, yield func(T, error) error) (metav1.ListMeta, error) {
	opts.Watch = false
	var listMeta metav1.ListMeta
	part, err := h.part()
	if err != nil {
		return listMeta, err
	}
	yield = part.listed(ctx, yield)
	leftOut, raw := request.LeftOut(ctx), request.RawOf(ctx)
	err = h.do(ctx, &opts, func(d standard.Decoder, resp *rest.Response) (err error) {
		read := d.List
		if opts.Continue != "" {
			read = d.NextPage
		}
		listMeta, err = read(resp, resp.Encoding(), func(o decode.Object) error {
			if o.Passed != 0 {
				leftOut()
				return nil
			}
			if raw != nil {
				raw.Set(&o)
			}
			obj, err := h.object(o)
			return stop(yield(obj, err))
		})
		return err
	})
	return listMeta, err
}

// Watch watches the collection. It ends with an error at an ERROR event, whose APIStatus errors.As
// finds, and at an object of another kind than the source's. An object without a name is an event
// with Err.
func (h *HTTP[T]) Watch(ctx context.Context, opts metav1.ListOptions, yield func(WatchEvent[T]) error) error {
	opts.Watch = true
	part, err := h.part()
	if err != nil {
		return err
	}
	yield = part.watched(yield)
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	return h.do(ctx, &opts, func(d standard.Decoder, resp *rest.Response) error {
		read := d.Watch
		if initial {
			read = d.WatchList
		}
		passed, raw := passedOver[T]{yield: yield}, request.RawOf(ctx)
		err := read(resp, resp.Encoding(), func(e decode.Event) error {
			switch at := e.Object.Passed; {
			case at != 0 && initial:
				return stop(yield(WatchEvent[T]{Type: watch.Bookmark, Filtered: true}))
			case at != 0:
				resp.Expected()
				// One bookmark for all that has come, so that what nobody wants makes no string.
				passed.last, passed.run = at, passed.run+1
				if e.More && passed.run < defaultLimit {
					return nil
				}
				return passed.bookmark(e.More)
			}
			passed.last, passed.run, initial = 0, 0, initial && !e.InitialEventsEnd
			ev := WatchEvent[T]{
				Type:             watch.EventType(e.Type),
				ResourceVersion:  e.ResourceVersion,
				InitialEventsEnd: e.InitialEventsEnd,
				More:             e.More,
			}
			if ev.Type == watch.Bookmark {
				return stop(yield(ev))
			}
			// Ident has the version of an object that could not be decoded; of any other object the
			// object itself has it. An object without a version is yielded like any other: the
			// reflector ends the watch, since no server may send one.
			ev.ResourceVersion = e.Object.Ident.ResourceVersion
			if obj, ok := e.Object.Value.(T); ok {
				ev.ResourceVersion = obj.GetResourceVersion()
			}
			if raw != nil {
				raw.Set(&e.Object)
			}
			if ev.Object, ev.Err = h.object(e.Object); ev.Err == nil {
				resp.Expected()
			}
			return stop(yield(ev))
		})
		if _, own := err.(stopped); !own && passed.last != 0 {
			err = cmp.Or(passed.bookmark(false), err)
		}
		return err
	})
}

// passedOver counts the events in a row that were passed over, and have no bookmark yet.
type passedOver[T Identified] struct {
	yield func(WatchEvent[T]) error
	last  uint64 // version of the last one; 0: none
	run   int    // how many
}

// bookmark yields the version of the last one. It is not inlined, since its event would then be on
// the stack of each informer that waits, which TestIdleStack bounds.
//
//go:noinline
func (p *passedOver[T]) bookmark(more bool) error {
	version := strconv.FormatUint(p.last, 10)
	p.last, p.run = 0, 0
	return stop(p.yield(WatchEvent[T]{Type: watch.Bookmark, ResourceVersion: version, Filtered: true, More: more}))
}

// Told is part of [Teller]. It encodes obj, in protobuf if it can, and decodes it as what List and
// Watch yield: Drop, Only and a projection hold, and the decoder may use the object later. URL says
// the namespace, and its query the selectors.
func (h *HTTP[T]) Told(obj Identified) (out T, stays bool, err error) {
	return h.told(obj, nil)
}

// told is Told. It fills raw, unless that is nil, with bytes that stay.
func (h *HTTP[T]) told(obj Identified, raw *request.Raw) (out T, stays bool, err error) {
	if _, selected := obj.(*request.Answer); !selected { // else whoever has the answer knows
		if stays, err = h.selects(obj); err != nil || !stays {
			return out, false, err
		}
	}
	d, err := h.take(&h.teller)
	if err != nil {
		return out, false, h.cannotDecode(err)
	}
	if !h.Whole {
		d.ReuseFrom(func(string, string) any { return nil }) // so that it makes its notes
	}
	data, enc, err := encodeFor(d, obj)
	if err != nil {
		h.put(&h.teller, d)
		return out, false, fmt.Errorf("lw: HTTP: %T: %w", obj, err)
	}
	o := d.One(data, enc)
	if raw != nil {
		raw.Set(&o)
	}
	h.put(&h.teller, d)
	if _, untyped := o.Value.(runtime.Unstructured); untyped && o.Ident.Kind == "" {
		o.Err = errors.New("the object has no kind")
	}
	if o.Err != nil && o.Ident.Name == "" {
		o.Ident.Namespace, o.Ident.Name = obj.GetNamespace(), obj.GetName()
	}
	switch m := o.Value.(type) {
	case *metav1.PartialObjectMetadata:
		m.TypeMeta = metav1.TypeMeta{} // as in a list; that of the object is not what a server writes of metadata
	case runtime.Unstructured:
		if m.GetObjectKind().GroupVersionKind().Kind == "" { // a typed client leaves it out of what it returns
			return out, false, fmt.Errorf("lw: HTTP: %T has no kind, which an untyped object needs: %w", obj, errors.ErrUnsupported)
		}
	}
	out, err = h.object(o)
	return out, err == nil, err
}

// encodeFor encodes obj as what d decodes.
func encodeFor(d standard.Decoder, obj Identified) ([]byte, decode.Encoding, error) {
	if a, ok := obj.(*request.Answer); ok {
		return a.For(d)
	}
	if m, ok := obj.(decode.Message); ok && d.Protobuf() {
		data, err := decode.Envelope(m)
		return data, decode.Protobuf, err
	}
	data, err := json.Marshal(obj)
	return data, decode.JSON, err
}

// selects reports whether URL and its query select obj, as far as they are about labels, name,
// namespace and shard.
func (h *HTTP[T]) selects(obj Identified) (bool, error) {
	u, err := url.Parse(h.URL)
	if err != nil {
		return false, h.cannotDecode(err)
	}
	// …/namespaces/<namespace>/<resource>
	if parts := strings.Split(strings.Trim(u.Path, "/"), "/"); len(parts) >= 3 && parts[len(parts)-3] == "namespaces" {
		if parts[len(parts)-2] != obj.GetNamespace() {
			return false, nil
		}
	}
	if u.RawQuery == "" {
		return true, nil
	}
	q := u.Query()
	return selects(metav1.ListOptions{LabelSelector: q.Get("labelSelector"), FieldSelector: q.Get("fieldSelector"), ShardSelector: q.Get("shardSelector")}, obj)
}

// reuses reports that a decoder notes what it needs to use the last version of an object.
func (h *HTTP[T]) reuses() bool { return standard.Name(h.Standard) == standard.LW }

// object returns the object that was decoded, or an *Error if there is none or it has no name.
func (h *HTTP[T]) object(o decode.Object) (T, error) {
	var zero T
	if o.Err != nil {
		return zero, &Error{Op: opDecode, Key: Key{Namespace: o.Ident.Namespace, Name: o.Ident.Name}, UID: o.Ident.UID, Err: o.Err}
	}
	obj := o.Value.(T)
	if err := unusable(obj); err != nil {
		return zero, err
	}
	return obj, nil
}

// do sends the request of opts and passes its response to read, with a decoder that nobody else
// uses meanwhile. If read ends with an error of yield, which stop has marked, do returns that error
// unchanged. To any other error of read it adds the URL and what the response is; see
// [rest.Response.Explain].
//
// Its frame is on the stack as long as a watch lasts, and a goroutine's stack is a power of two: so
// opts is a pointer, and what comes before the response is in functions of its own.
func (h *HTTP[T]) do(ctx context.Context, opts *metav1.ListOptions, read func(standard.Decoder, *rest.Response) error) error {
	d, err := h.take(&h.idle)
	if err != nil {
		return h.cannotDecode(err)
	}
	// The decoder asks ctx now and then, so it also stops in the middle of a large object.
	d.StopWhen(ctx.Err)
	if !h.Whole {
		d.ReuseFrom(request.LenderOf(ctx))
	}
	d.PassOver(request.WantedOf(ctx))
	resp, err := h.send(ctx, opts, d)
	if err != nil {
		h.put(&h.idle, d)
		return err
	}
	defer resp.Finish()
	err = read(d, resp)
	h.put(&h.idle, d)
	if s, ok := err.(stopped); ok {
		return s.error
	}
	return resp.Explain(err)
}

// cannotDecode returns the error of a source that cannot work, for the reason err.
//
//go:noinline
func (h *HTTP[T]) cannotDecode(err error) error {
	return permanent(fmt.Errorf("lw: HTTP: %s: %w", rest.Redacted(h.URL), err))
}

// send sends the request of opts and waits for the head of its response, whose body d will read.
//
//go:noinline
func (h *HTTP[T]) send(ctx context.Context, opts *metav1.ListOptions, d standard.Decoder) (*rest.Response, error) {
	collection := rest.Collection{
		URL:      h.URL,
		Objects:  nameOf(h.objectType()),
		Client:   h.Client,
		Header:   h.Header,
		Accept:   h.Accept,
		Decoder:  d,
		Metadata: h.objectType() == reflect.TypeFor[*metav1.PartialObjectMetadata](),
	}
	req, err := collection.Request(ctx, *opts)
	if err != nil {
		return nil, permanent(err)
	}
	return req.Send()
}

// stopped marks an error of yield, so that do can tell it from an error of decoding.
type stopped struct{ error }

// stop returns err, an error of yield or nil, marked as stopped.
func stop(err error) error {
	if err == nil {
		return nil
	}
	return stopped{err}
}

// objectType returns the type to decode into.
func (h *HTTP[T]) objectType() reflect.Type {
	if h.Type != nil {
		return h.Type
	}
	return reflect.TypeFor[T]()
}

// take returns an idle decoder, or a new one if there is none. A Source need not allow two
// requests at the same time, but if there are two, each has a decoder of its own. take fails if the
// type is not a pointer to a struct or no T, or if a path of Drop or Only is invalid.
func (h *HTTP[T]) take(idle *standard.Decoder) (standard.Decoder, error) {
	t := h.objectType()
	h.mu.Lock()
	d := *idle
	*idle = nil
	if h.kinds == nil {
		h.kinds = decode.NewKinds(t, h.Kind)
	}
	kinds := h.kinds
	h.mu.Unlock()
	if d != nil {
		return d, nil
	}
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("cannot decode into %v: want a pointer to a struct", t)
	}
	if !t.AssignableTo(reflect.TypeFor[T]()) {
		return nil, fmt.Errorf("cannot decode into %v: Type is not a %v", t, reflect.TypeFor[T]())
	}
	opts := decode.Options{Drop: h.Drop, Only: h.Only, Share: h.Share, Kinds: kinds, Raw: h.packed}
	opts.OnlyJSON = h.Accept != "" && !strings.Contains(h.Accept, "protobuf")
	d, err := standard.New(t, opts, h.Standard)
	if wrong, ok := errors.AsType[*decode.PathError](err); ok {
		err = fmt.Errorf("%s: %w", wrong.Option, err)
	}
	return d, err
}

// put keeps d for the next request, and makes it forget what this one asked of it. Of two decoders
// that are put one after the other, the last one stays. It is not deferred: a decoder that a panic
// has ended, of a type's own method, is not used again.
func (h *HTTP[T]) put(idle *standard.Decoder, d standard.Decoder) {
	d.StopWhen(nil)
	d.ReuseFrom(nil)
	d.PassOver(nil)
	h.mu.Lock()
	*idle = d
	h.mu.Unlock()
}

// Fields are paths of an API's type, for [HTTP].Only: what a program reads of its objects.
// nil is all. Any other keeps name, namespace, UID and version as well.
//
// A path keeps all that is below it, and goes through lists, such as "status.conditions.type".
// Behind a map the rest is one key, dots included, or with a "*" at its end all that begin so. A
// "?" at the end keeps whether the field is there and how many elements it has. docs/memory.md says
// more.
//
// Objects that lack fields must not be written back: an Update would delete these on the server.
type Fields []string

// Union returns paths that keep what f keeps and what g keeps, sorted. It leaves out a path of
// which another keeps all, whatever the type of the objects: "data.app" and "data.app.yaml" may be
// two keys of one map.
func (f Fields) Union(g Fields) Fields {
	if f == nil || g == nil {
		return nil
	}
	all := slices.Concat(f, g)
	slices.Sort(all)
	all = slices.Compact(all)
	// What stands before a "*".
	begins := map[string]bool{}
	for _, path := range all {
		if p := parsePath(path); p.many {
			begins[p.name] = true
		}
	}
	union := Fields{}
	for _, path := range all {
		if !keptByOther(path, all, begins) {
			union = append(union, path)
		}
	}
	return union
}

// keptByOther reports whether one of all, which are sorted, keeps path and is not path. It looks
// for the few that could, since a program may have thousands of paths.
func keptByOther(path string, all []string, begins map[string]bool) bool {
	p := parsePath(path)
	has := func(kept string) bool {
		_, found := slices.BinarySearch(all, kept)
		return found && kept != path && parsePath(kept).keeps(p)
	}
	// What is around the others, in the object and in its metadata, and the same without a "?".
	around, rest, _ := strings.Cut(p.name, ".")
	inner, _, _ := strings.Cut(rest, ".")
	if has(around) || has(around+"."+inner) || has(p.name) {
		return true
	}
	for n := 0; n <= len(p.name) && len(begins) > 0; n++ {
		if begin := p.name[:n]; begins[begin] && (has(begin+"*") || has(begin+"*?")) {
			return true
		}
	}
	return false
}

// A fieldPath is a path of Fields in its parts.
type fieldPath struct {
	name  string
	many  bool // a "*": all keys that begin with the last part of name
	count bool // a "?"
}

func parsePath(path string) (p fieldPath) {
	p.name, p.count = strings.CutSuffix(path, "?")
	p.name, p.many = strings.CutSuffix(p.name, "*")
	return p
}

// keeps reports whether kept keeps all that p keeps, in objects of any type.
func (kept fieldPath) keeps(p fieldPath) bool {
	rest, begins := strings.CutPrefix(p.name, kept.name)
	switch {
	case !begins || kept.count && !p.count:
		return false
	case kept.many:
		// Of an object the "?" keeps nothing that is in it.
		return !kept.count || !strings.Contains(rest, ".") || ofStrings(kept.name)
	case rest == "":
		return !p.many
	}
	return !kept.count && rest[0] == '.' && isField(kept.name)
}

// isField reports whether path is surely that of a field, and of no key of a map: of one of the
// object, or of its metadata.
func isField(path string) bool { return !strings.Contains(strings.TrimPrefix(path, "metadata."), ".") }

// ofStrings reports whether path is surely that of a key of a map of strings.
func ofStrings(path string) bool {
	return strings.HasPrefix(path, "metadata.labels.") || strings.HasPrefix(path, "metadata.annotations.")
}
