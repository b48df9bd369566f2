package clientgo

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/request"
)

// TellWrites returns a client that does what client does, and tells informers what the server
// answers to the writes made through it, as lw.Informer.Tell and TellDeleted do: when a create, an
// update, a patch or a delete returns, every read of the informers shows it, and so do indexes.
// Give the client to a constructor of client-go, as that of [Capture]; both may be used together.
// TellWrites does not change client; nil is http.DefaultClient.
//
// The informers are those of lw whose lists and watches are made through it, or through one of
// others, which are clients of TellWrites as well: of an lw.HTTP, lw.FromClient or a [Decoder],
// typed ones, unstructured ones, metadata and projections. Not those of [NewInformer] and [Source],
// whose ListerWatchers might change what the server sends; a [Decoder] without Trust has seen that
// its one does not when a list has brought objects. An informer is told of its own resource, in the
// version and the namespaces that it asks for. An object that its selectors leave out goes. It is
// told of no object if it selects by fields other than metadata.name and metadata.namespace.
//
// Told are writes of objects and of their status, ephemeralcontainers, resize, approval and
// finalize, also the update that takes the last finalizer of what is to be deleted. Writes of a
// client of metadata are told to informers of metadata. Not told, so that the watch brings the
// change:
//
//   - writes of other subresources, such as scale, eviction and binding;
//   - writes and deletions of many objects at once, and what a deletion deletes beside its object;
//   - to informers of whole objects, what is answered with metadata alone; to all, what is answered
//     as a Table, as YAML, or compressed;
//   - what fails or is a dry run, and a success whose answer is lost or has no resource version;
//   - writes through other clients, and in another version of the API than the informer's.
//
// An informer that cannot be told, or an answer that it cannot decode, is logged once.
func TellWrites(client *http.Client, others ...*http.Client) *http.Client {
	if client == nil {
		client = http.DefaultClient
	}
	var told []*followers
	for _, other := range others {
		if t := tellingOf(other); t != nil {
			told = append(told, t.told...)
		}
	}
	own := tellingOf(client)
	if own != nil && len(told) == 0 {
		return client
	}
	t := &telling{next: client.Transport}
	if own != nil && own == client.Transport {
		t.next, told = own.next, append(told, own.told...) // else a write would be told twice
	}
	if t.next == nil {
		t.next = http.DefaultTransport
	}
	t.own = &followers{of: map[place][]*follower{}}
	t.told = append([]*followers{t.own}, told...)
	telling := *client
	telling.Transport = t
	return &telling
}

// tellingOf returns the transport of client that TellWrites made, perhaps below that of [Capture].
func tellingOf(client *http.Client) *telling {
	if client == nil {
		return nil
	}
	next := client.Transport
	if c, ok := next.(*capturing); ok {
		next = c.next
	}
	t, _ := next.(*telling)
	return t
}

// telling is the transport of a client that [TellWrites] returned.
type telling struct {
	next http.RoundTripper
	own  *followers   // that ask through it
	told []*followers // own, and those of others
}

// RoundTrip sends r. Of the request of an informer it notes which collection that follows, and it
// tells the answer of a write before it returns it.
func (t *telling) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet:
		if teller := request.TellerOf(r.Context()); teller != nil {
			t.own.note(r, teller)
		}
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		if to, key := t.followersOf(r); len(to) > 0 {
			return t.write(r, key, to)
		}
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections makes the method of http.Client work, which looks for it.
func (t *telling) CloseIdleConnections() {
	(&http.Client{Transport: t.next}).CloseIdleConnections()
}

// WrappedRoundTripper lets apimachinery find the http.Transport below.
func (t *telling) WrappedRoundTripper() http.RoundTripper { return t.next }

// followersOf returns who is to be told of the answer of r, and the key in its path, whose name is
// empty for a create.
func (t *telling) followersOf(r *http.Request) (to []*follower, key lw.Key) {
	at, target, ok := placeOf(r.URL)
	if !ok || target.Longer || (r.Method == http.MethodPost) != (target.Name == "") || r.URL.RawQuery != "" && r.URL.Query().Has("dryRun") {
		return nil, key
	}
	switch target.Subresource {
	case "":
	case "status", "ephemeralcontainers", "resize", "approval", "finalize": // their answer is the object
		if r.Method == http.MethodDelete {
			return nil, key
		}
	default:
		return nil, key
	}
	for _, f := range t.told {
		to = append(to, f.in(at, target.Namespace)...)
	}
	return to, lw.Key{Namespace: target.Namespace, Name: target.Name}
}

// write sends r, and tells to what the server answers.
func (t *telling) write(r *http.Request, key lw.Key, to []*follower) (*http.Response, error) {
	var own request.Own
	if remembered := request.OwnRemembered(); r.Body != nil && r.Body != http.NoBody && (remembered || r.Method == http.MethodDelete) {
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		// Options of a delete may be in any encoding. Of what they can say, only a dry run has this text.
		if r.Method == http.MethodDelete && bytes.Contains(body, []byte(metav1.DryRunAll)) {
			return t.next.RoundTrip(r)
		}
		if remembered {
			own = ownOf(r, body)
		}
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusAccepted {
		return resp, err
	}
	encoding, ok := encodingOf(resp.Header)
	if !ok {
		return resp, nil
	}
	body := &answerBody{read: buffers.Get().(*bytes.Buffer)}
	if _, body.err = body.read.ReadFrom(resp.Body); body.err == nil {
		tell(r, resp.StatusCode, key, body.read.Bytes(), encoding, to, own)
	}
	resp.Body.Close()
	resp.Body = body
	return resp, nil
}

// largeAnswer is the size of a buffer that is not kept.
const largeAnswer = 1 << 20

// ownOf returns what is known of the change that r, which writes body, makes.
func ownOf(r *http.Request, body []byte) request.Own {
	own := request.Own{Create: r.Method == http.MethodPost, Manager: r.URL.Query().Get("fieldManager")}
	if own.Manager == "" {
		own.Manager, _, _ = strings.Cut(r.UserAgent(), "/") // as kube-apiserver
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding, known := encodings[mediaType]
	if !known && r.Method != http.MethodPatch {
		return own
	}
	if h, _ := headOf(body, encoding); h != nil && !own.Create {
		own.Base = h.Metadata.ResourceVersion
	}
	return own
}

// An answerBody is a body that was read.
type answerBody struct {
	mu   sync.Mutex
	read *bytes.Buffer // nil: closed; guarded by mu
	err  error         // that followed it
}

// buffers are those of bodies that were closed.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (b *answerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.read.Read(p)
	if err == io.EOF && b.err != nil {
		err = b.err
	}
	return n, err
}

func (b *answerBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read != nil && b.read.Cap() <= largeAnswer {
		b.read.Reset()
		buffers.Put(b.read)
	}
	b.read = nil
	return nil
}

var encodings = map[string]decode.Encoding{
	runtime.ContentTypeJSON: decode.JSON, runtime.ContentTypeProtobuf: decode.Protobuf, runtime.ContentTypeCBOR: decode.CBOR,
}

// encodingOf returns how an answer is encoded; ok is false if lw cannot decode it, or if it has
// another form than objects have in that encoding.
func encodingOf(header http.Header) (encoding decode.Encoding, ok bool) {
	if encoding, ok = encodings[header.Get("Content-Type")]; ok && header.Get("Content-Encoding") == "" {
		return encoding, true
	}
	mediaType, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || params["as"] != "" || header.Get("Content-Encoding") != "" {
		return 0, false
	}
	encoding, ok = encodings[mediaType]
	return encoding, ok
}

// tell tells to of an answer to r.
func tell(r *http.Request, code int, key lw.Key, data []byte, encoding decode.Encoding, to []*follower, own request.Own) {
	logger := klog.FromContext(r.Context())
	answer, h := identify(data, encoding)
	// A deletion is told without a version: that of its answer is the deletion's or the last one
	// before.
	gone := func(uid types.UID) {
		note(own, uid, "", to)
		for _, f := range to {
			f.log(logger, f.teller.TellDeleted(key, uid, ""))
		}
	}
	switch {
	case answer == nil, answer.Kind == "Table":
		return
	case answer.Kind == "Status":
		if r.Method != http.MethodDelete || answer.UID == "" {
			return
		}
		gone(answer.UID)
		return
	}
	got := lw.KeyOf(answer)
	if !mayBe(key, got) || answer.UID == "" || answer.ResourceVersion == "" {
		return
	}
	if r.Method == http.MethodDelete && h.gone(code) || (r.Method == http.MethodPut || r.Method == http.MethodPatch) && h.finalized() {
		gone(answer.UID)
		return
	}
	note(own, answer.UID, answer.ResourceVersion, to)
	partial := answer.Kind == "PartialObjectMetadata" // of which only informers of metadata can have the object
	for _, f := range to {
		switch selected, known := f.selects(answer); {
		case !known, selected && partial && !f.metadata:
		case selected:
			f.log(logger, f.teller.Tell(answer))
		default: // without a UID: the object is not gone, and may come back
			f.log(logger, f.teller.TellDeleted(got, "", answer.ResourceVersion))
		}
	}
}

// mayBe reports whether a request with that key may be answered with the object got. One that
// creates has no name, or only its beginning.
func mayBe(key, got lw.Key) bool {
	return got.Name != "" && got.Namespace == key.Namespace && (key.Name == "" || got == key)
}

// A head is what is looked at of an object before somebody decodes it.
type head struct {
	Metadata struct {
		Name            string            `json:"name" protobuf:"bytes,1,opt,name=name"`
		Namespace       string            `json:"namespace" protobuf:"bytes,3,opt,name=namespace"`
		UID             types.UID         `json:"uid" protobuf:"bytes,5,opt,name=uid"`
		ResourceVersion string            `json:"resourceVersion" protobuf:"bytes,6,opt,name=resourceVersion"`
		Labels          map[string]string `json:"labels" protobuf:"bytes,11,rep,name=labels"`
		Marked          *metav1.Time      `json:"deletionTimestamp" protobuf:"bytes,9,opt,name=deletionTimestamp"`
		Grace           *int64            `json:"deletionGracePeriodSeconds" protobuf:"varint,10,opt,name=deletionGracePeriodSeconds"`
		Finalizers      []string          `json:"finalizers" protobuf:"bytes,14,rep,name=finalizers"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}

// gone reports whether the object is gone, if a delete was answered with it and that code. Else it
// is marked for deletion: it has finalizers or a period of grace.
func (h *head) gone(code int) bool {
	m := &h.Metadata
	if m.Marked == nil {
		return code == http.StatusOK
	}
	return m.Grace != nil && *m.Grace == 0 && len(m.Finalizers) == 0
}

// finalized reports whether the object is gone, if an update was answered with it: the server has
// deleted what was marked for that and has no finalizer any more.
func (h *head) finalized() bool {
	m := &h.Metadata
	return m.Marked != nil && len(m.Finalizers) == 0 && (m.Grace == nil || *m.Grace == 0)
}

// headDecoders are decoders of heads that nobody uses. Those of apimachinery read no projections in
// protobuf: they read all of the metadata.
var headDecoders = sync.Pool{New: func() any {
	t := reflect.TypeFor[*head]()
	if standard.Name(false) != standard.LW {
		t = reflect.TypeFor[*metav1.PartialObjectMetadata]()
	}
	d, err := standard.New(t, decode.Options{}, false)
	if err != nil {
		return nil // of the environment; every source says so
	}
	return d
}}

// headOf returns the head of an object, and its kind; nil if data is none.
func headOf(data []byte, encoding decode.Encoding) (h *head, kind string) {
	d, ok := headDecoders.Get().(standard.Decoder)
	if !ok {
		return nil, ""
	}
	obj := d.One(data, encoding)
	headDecoders.Put(d)
	switch v := obj.Value.(type) {
	case *head:
		h = v
	case *metav1.PartialObjectMetadata:
		h = &head{}
		m := &h.Metadata
		m.Name, m.Namespace, m.UID, m.ResourceVersion, m.Labels = v.Name, v.Namespace, v.UID, v.ResourceVersion, v.Labels
		m.Marked, m.Grace, m.Finalizers = v.DeletionTimestamp, v.DeletionGracePeriodSeconds, v.Finalizers
	}
	return h, obj.Ident.Kind
}

// identify returns what data is; a Status has the UID of what it is about, and no head. It returns
// nil if data is no object.
func identify(data []byte, encoding decode.Encoding) (*request.Answer, *head) {
	h, kind := headOf(data, encoding)
	if kind == "Status" {
		s, ok := decode.Status(data, encoding)
		if !ok || s.Status != metav1.StatusSuccess || s.Details == nil {
			return nil, nil
		}
		return &request.Answer{Kind: kind, UID: s.Details.UID}, nil
	}
	if h == nil {
		return nil, nil
	}
	m := &h.Metadata
	return &request.Answer{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels,
		Kind: kind, Data: data, Encoding: encoding, JSON: func() ([]byte, error) {
			obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
			if err != nil {
				return nil, err
			}
			return json.Marshal(obj)
		},
	}, h
}
