package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/wire"
)

// warnCode is the code of a warning that stays as long as its cause, of RFC 7234. kube-apiserver
// uses it, too.
const warnCode = 299

// maxBody is how many bytes a client may send, as with kube-apiserver.
const maxBody = 3 << 20

// write answers a create, an update or a delete.
func (q *request) write() error {
	if isCreate := q.attributes.Verb == "create"; isCreate != (q.target.Name == "") {
		// An object is created in its collection, and all else is done to it by its name.
		return apierrors.NewMethodNotSupported(q.collection.groupResource(), q.attributes.Verb)
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
		stored, err = q.collection.writes.create(data)
	} else {
		stored, err = q.collection.writes.update(q.key(), data)
	}
	if err != nil {
		return err
	}
	return q.writeStored(code, stored)
}

// writeStored answers with an object that was stored.
func (q *request) writeStored(code int, stored any) error {
	return q.inFormat(wire.WantObject, func() error {
		id := q.collection.writes.identity(stored)
		version, _ := decimal(id.ResourceVersion)
		return q.writeItem(code, q.collection.item(stored, lw.KeyOf(&id), id.UID, version))
	})
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
	old, err := q.collection.writes.remove(q.key(), uid, version)
	if err != nil {
		return err
	}
	return q.writeStatus(&metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: q.target.Name, Group: q.collection.group, Kind: q.collection.name, UID: q.collection.writes.identity(old).UID,
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
	unknown := q.collection.writes.unknown(data)
	if unknown == nil {
		return nil
	}
	if directive == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is no %s: strict decoding error: %v", q.collection.kind, unknown))
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
	c := q.collection
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
	if object.Kind != "" && object.Kind != c.kind || object.APIVersion != "" && object.APIVersion != c.apiVersion() {
		return bad("the object is a %s of %s, and the path is of a %s of %s", object.Kind, object.APIVersion, c.kind, c.apiVersion())
	}
	key, m := q.key(), &object.Metadata
	add := map[string]any{}
	switch {
	case m.Namespace == "" && key.Namespace != "":
		add["namespace"] = key.Namespace
	case m.Namespace != key.Namespace:
		return bad("the namespace of the object, %q, is not that of the request, %q", m.Namespace, key.Namespace)
	case key.Namespace == "" && !c.cluster:
		return bad("%s need a namespace", c.name)
	}
	switch {
	case key.Name != "" && m.Name != key.Name:
		return bad("the name of the object, %q, is not that of the request, %q", m.Name, key.Name)
	case key.Name == "" && m.Name == "" && m.GenerateName != "":
		m.Name = m.GenerateName + wire.NameSuffix()
		add["name"] = m.Name
	}
	if m.CreationTimestamp.IsZero() {
		add["creationTimestamp"] = metav1.NewTime(time.Now()).Rfc3339Copy()
		if q.attributes.Verb == "update" {
			delete(add, "creationTimestamp")
			if created, ok := c.createdAt(key); ok {
				add["creationTimestamp"] = created
			}
		}
	}
	return withMetadata(data, add)
}

// createdAt returns the time of creation of the object that is stored under key.
func (c *collection) createdAt(key lw.Key) (metav1.Time, bool) {
	obj, ok := c.writes.get(key)
	if !ok {
		return metav1.Time{}, false
	}
	if o, ok := obj.(metav1.Object); ok {
		return o.GetCreationTimestamp(), !o.GetCreationTimestamp().Time.IsZero()
	}
	return metav1.Time{}, false
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
