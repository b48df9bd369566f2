package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// A writer stores what clients write.
type writer interface {
	// create and update decode data, which is JSON, and store it. They return the object that is
	// stored.
	create(data []byte) (stored any, err error)
	update(key lw.Key, data []byte) (stored any, err error)
	// unknown returns an error that names a field of data that the objects do not have.
	unknown(data []byte) error
	// remove deletes the object of key, if the preconditions hold, and returns it.
	remove(key lw.Key, uid types.UID, version string) (old any, err error)
	get(key lw.Key) (obj any, ok bool)
	identity(obj any) lw.Meta
}

// warnCode is the code of a warning that stays as long as its cause, of RFC 7234. kube-apiserver
// uses it, too.
const warnCode = 299

// maxBody is how many bytes a client may send, as with kube-apiserver.
const maxBody = 3 << 20

// write answers a create, an update or a delete.
func (q *request) write() error {
	if isCreate := q.attributes.Verb == "create"; isCreate != (q.target.key.Name == "") {
		// An object is created in its collection, and all else is done to it by its name.
		return apierrors.NewMethodNotSupported(q.served.groupResource(), q.attributes.Verb)
	}
	data, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, maxBody))
	if err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody))
		}
		return apierrors.NewBadRequest(err.Error())
	}
	if q.attributes.Verb == "delete" {
		return q.remove(data)
	}
	if data, err = q.decoded(data); err != nil {
		return err
	}
	sent := data
	if data, err = q.complete(data); err != nil {
		return err
	}
	if err := q.checkFields(sent); err != nil {
		return err
	}
	if dry := q.r.URL.Query()["dryRun"]; len(dry) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	code := http.StatusOK
	var stored any
	if q.attributes.Verb == "create" {
		code = http.StatusCreated
		stored, err = q.served.writes.create(data)
	} else {
		stored, err = q.served.writes.update(q.target.key, data)
	}
	if err != nil {
		return err
	}
	return q.writeStored(code, stored)
}

// writeStored answers with an object that was stored.
func (q *request) writeStored(code int, stored any) error {
	var err error
	if q.format, err = q.negotiate(wire.WantObject); err != nil {
		return err
	}
	id := q.served.writes.identity(stored)
	version, _ := decimal(id.ResourceVersion)
	return q.writeItem(code, q.served.item(stored, id.Key(), id.UID, version))
}

// remove answers a delete.
func (q *request) remove(data []byte) error {
	var opts metav1.DeleteOptions
	if len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, &opts); err != nil {
			return apierrors.NewBadRequest("the body is no DeleteOptions: " + err.Error())
		}
	}
	if len(opts.DryRun) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	var uid types.UID
	var version string
	if p := opts.Preconditions; p != nil {
		if p.UID != nil {
			uid = *p.UID
		}
		if p.ResourceVersion != nil {
			version = *p.ResourceVersion
		}
	}
	old, err := q.served.writes.remove(q.target.key, uid, version)
	if err != nil {
		return err
	}
	return q.writeStatus(&metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: q.target.key.Name, Group: q.served.group, Kind: q.served.name, UID: q.served.writes.identity(old).UID,
		},
	})
}

// decoded returns the body of a write as JSON.
func (q *request) decoded(data []byte) ([]byte, error) {
	mediaType, _, err := mime.ParseMediaType(q.r.Header.Get("Content-Type"))
	switch {
	case q.r.Header.Get("Content-Type") == "", err == nil && mediaType == mediaJSON:
		if !json.Valid(data) {
			return nil, apierrors.NewBadRequest("the body is not JSON")
		}
		return data, nil
	case err == nil && mediaType == mediaCBOR:
		var content map[string]any
		if err := cbor.Unmarshal(data, &content); err != nil {
			return nil, apierrors.NewBadRequest("the body is not CBOR: " + err.Error())
		}
		return json.Marshal(content)
	}
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body is %q, and must be %s", q.r.Header.Get("Content-Type"), mediaJSON),
	}}
}

// checkFields does what the parameter fieldValidation says if a body, which is JSON, has a field that
// the objects do not have, so that it would be lost. As with kube-apiserver, the default is a warning.
func (q *request) checkFields(data []byte) error {
	directive := q.r.URL.Query().Get("fieldValidation")
	switch directive {
	case metav1.FieldValidationIgnore:
		return nil
	case "", metav1.FieldValidationWarn, metav1.FieldValidationStrict:
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("fieldValidation is %q, and must be Ignore, Warn or Strict", directive))
	}
	unknown := q.served.writes.unknown(data)
	if unknown == nil {
		return nil
	}
	if directive == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is no %s: strict decoding error: %v", q.served.kind, unknown))
	}
	warning, err := utilnet.NewWarningHeader(warnCode, "", unknown.Error())
	if err == nil {
		q.w.Header().Add("Warning", warning)
	}
	return nil
}

// complete checks the kind and the metadata of a body, which is JSON, and adds what a server adds:
// the namespace of the path, a name for a generateName, and the time of creation.
func (q *request) complete(data []byte) ([]byte, error) {
	s := q.served
	var object struct {
		Kind, APIVersion string
		Metadata         metav1.ObjectMeta
	}
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(format, args...))
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return bad("the body is no object: %v", err)
	}
	if object.Kind != "" && object.Kind != s.kind || object.APIVersion != "" && object.APIVersion != s.apiVersion() {
		return bad("the object is a %s of %s, and the path is of a %s of %s", object.Kind, object.APIVersion, s.kind, s.apiVersion())
	}
	key, m := q.target.key, &object.Metadata
	add := map[string]any{}
	switch {
	case m.Namespace == "" && key.Namespace != "":
		add["namespace"] = key.Namespace
	case m.Namespace != key.Namespace:
		return bad("the namespace of the object, %q, is not that of the request, %q", m.Namespace, key.Namespace)
	case key.Namespace == "" && !s.cluster:
		return bad("%s need a namespace", s.name)
	}
	switch {
	case key.Name != "" && m.Name != key.Name:
		return bad("the name of the object, %q, is not that of the request, %q", m.Name, key.Name)
	case key.Name == "" && m.Name == "" && m.GenerateName != "":
		m.Name = m.GenerateName + suffix()
		add["name"] = m.Name
	}
	if m.CreationTimestamp.IsZero() {
		add["creationTimestamp"] = metav1.NewTime(time.Now()).Rfc3339Copy()
		if q.attributes.Verb == "update" {
			delete(add, "creationTimestamp")
			if created, ok := s.createdAt(key); ok {
				add["creationTimestamp"] = created
			}
		}
	}
	return withMetadata(data, add)
}

// createdAt returns the time of creation of the object that is stored under key.
func (s *served) createdAt(key lw.Key) (metav1.Time, bool) {
	obj, ok := s.writes.get(key)
	if !ok {
		return metav1.Time{}, false
	}
	if o, ok := obj.(metav1.Object); ok {
		return o.GetCreationTimestamp(), !o.GetCreationTimestamp().Time.IsZero()
	}
	return metav1.Time{}, false
}

// suffix returns five random letters and digits, without those that make words.
func suffix() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, 5)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

// withMetadata returns a JSON object with more members in its metadata, in place of those of the
// same names.
func withMetadata(data []byte, add map[string]any) ([]byte, error) {
	if len(add) == 0 {
		return data, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	meta := map[string]json.RawMessage{}
	if raw := object["metadata"]; raw != nil {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, err
		}
	}
	for name, value := range add {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		meta[name] = raw
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	object["metadata"] = raw
	return json.Marshal(object)
}

// A memoryWriter writes into a Memory.
type memoryWriter[T lw.Object] struct {
	memory   *lw.Memory[T]
	resource *resource
	opts     Resource[T]
}

func (w *memoryWriter[T]) decode(data []byte) (T, error) {
	var zero T
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer {
		return zero, apierrors.NewInternalError(fmt.Errorf("serve: cannot decode into %v", t))
	}
	v := reflect.New(t.Elem())
	if err := json.Unmarshal(data, v.Interface()); err != nil {
		return zero, apierrors.NewBadRequest(err.Error())
	}
	obj := v.Interface().(T)
	if o, ok := any(obj).(runtime.Object); ok && w.opts.Encode == nil {
		// As with a generated client, the kind of a typed object is empty; an object without a type
		// keeps it.
		if _, untyped := any(obj).(interface{ UnstructuredContent() map[string]any }); !untyped {
			o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
	}
	return obj, nil
}

func (w *memoryWriter[T]) unknown(data []byte) error {
	var object, meta map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || json.Unmarshal(object["metadata"], &meta) != nil {
		return nil // complete has refused it
	}
	// Every object may have these, also one that does not keep them.
	delete(object, "apiVersion")
	delete(object, "kind")
	delete(meta, "creationTimestamp")
	raw, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	object["metadata"] = raw
	if data, err = json.Marshal(object); err != nil {
		return err
	}
	if _, err := w.decode(data); err != nil {
		return nil // create and update say so
	}
	var obj T
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&obj); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func (w *memoryWriter[T]) validate(old, obj T) (err error) {
	defer recovered(&err)
	if w.opts.Validate == nil {
		return nil
	}
	err = w.opts.Validate(old, obj)
	if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: err.Error(),
	}}
}

func (w *memoryWriter[T]) create(data []byte) (any, error) {
	obj, err := w.decode(data)
	if err != nil {
		return nil, err
	}
	var none T
	if err := w.validate(none, obj); err != nil {
		return nil, err
	}
	stored, err := w.memory.Create(obj)
	return stored, w.resource.named(err)
}

func (w *memoryWriter[T]) update(key lw.Key, data []byte) (any, error) {
	sent, err := w.decode(data)
	if err != nil {
		return nil, err
	}
	for {
		obj, again := sent, false
		if old, ok := w.memory.Get(key); ok {
			if err := w.validate(old, sent); err != nil {
				return nil, err
			}
			// Only the object that the validating function has seen may be replaced.
			if sent.GetResourceVersion() == "" {
				versioned, err := withMetadata(data, map[string]any{"resourceVersion": old.GetResourceVersion()})
				if err != nil {
					return nil, err
				}
				if obj, err = w.decode(versioned); err != nil {
					return nil, err
				}
				again = sent.GetUID() == "" || sent.GetUID() == old.GetUID()
			}
		}
		stored, err := w.memory.Update(obj)
		if !again || !apierrors.IsConflict(err) {
			return stored, w.resource.named(err)
		}
	}
}

func (w *memoryWriter[T]) remove(key lw.Key, uid types.UID, version string) (any, error) {
	for {
		old, ok := w.memory.Get(key)
		if !ok {
			return nil, apierrors.NewNotFound(w.resource.groupResource(), key.Name)
		}
		want := lw.MetaOf(old)
		if uid != "" {
			want.UID = uid
		}
		if version != "" {
			want.ResourceVersion = version
		}
		var none T
		if err := w.validate(old, none); err != nil {
			return nil, err
		}
		err := w.memory.DeleteIf(want)
		// Only the object that the validating function has seen may be deleted. If that has changed
		// meanwhile, and is still one that the client wants to be deleted, it is tried again.
		if !apierrors.IsConflict(err) || version != "" || uid != "" && uid != old.GetUID() {
			return old, w.resource.named(err)
		}
	}
}

// named returns an error of a Memory, which guesses what its objects are called, with their name and
// group.
func (r *resource) named(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return err
	}
	renamed := *status.ErrStatus.DeepCopy()
	d := renamed.Details
	guess := schema.GroupResource{Group: d.Group, Resource: d.Kind}
	renamed.Message = strings.Replace(renamed.Message, fmt.Sprintf("%s %q", guess.String(), d.Name),
		fmt.Sprintf("%s %q", r.groupResource().String(), d.Name), 1)
	d.Group, d.Kind = r.group, r.name
	return &apierrors.StatusError{ErrStatus: renamed}
}

func (w *memoryWriter[T]) get(key lw.Key) (any, bool) { return w.memory.Get(key) }

func (w *memoryWriter[T]) identity(obj any) lw.Meta { return lw.MetaOf(obj.(T)) }
