package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/go-lw/lw/internal/wire"
)

// mediaType returns the media type of a Content-Type, without its parameters. It is JSON if there
// is none.
func mediaType(contentType string) string {
	if contentType == "" {
		return runtime.ContentTypeJSON
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return contentType
	}
	return t
}

// unsupported is the error of a body in a format that is none of accepted.
func unsupported(accepted ...string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}

// accepted are the formats of the bodies that are objects.
func (k *Kind) accepted() []string {
	types := []string{runtime.ContentTypeJSON, runtime.ContentTypeYAML, runtime.ContentTypeCBOR}
	if k.Type != nil && k.Type.message {
		types = append(types, runtime.ContentTypeProtobuf)
	}
	return types
}

// decode returns the object in a body. What is lost of it is warned of, or an error, as the options
// say.
func (w *Write) decode(body []byte) (*Object, error) {
	strict := w.opts.validation != metav1.FieldValidationIgnore
	data, lost, err := w.kind.toJSON(w.req.ContentType, body, strict)
	if err != nil {
		return nil, w.kind.unrecognized(body, err)
	}
	data, twice, err := tidy(data)
	if err != nil {
		return nil, w.kind.unrecognized(body, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	o, unknown, err := w.object(data, strict)
	if err != nil {
		return nil, w.kind.undecodable(data, err)
	}
	if lost = append(append(lost, twice...), unknown...); !strict || len(lost) == 0 {
		return o, nil
	}
	if w.opts.validation == metav1.FieldValidationStrict {
		return nil, w.kind.undecodable(data, runtime.NewStrictDecodingError(lost))
	}
	w.warn(lost)
	return o, nil
}

// object is [Kind.object] for what a client has sent: a custom resource must say what it is.
func (w *Write) object(data []byte, strict bool) (*Object, []error, error) {
	if from, _, _ := wire.FindMember(data, 0, "kind"); from == 0 && w.kind.Versioned && !w.req.Whole {
		return nil, nil, errNoKind
	}
	return w.kind.object(data, strict)
}

func (w *Write) warn(lost []error) {
	for _, err := range lost {
		if text := err.Error(); !slices.Contains(w.Warnings, text) {
			w.Warnings = append(w.Warnings, text)
		}
	}
}

// undecodable is the answer to JSON that is no object of the Kind.
func (k *Kind) undecodable(data []byte, err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	version, kind := k.Version, k.Kind
	if v := (*versionError)(nil); errors.As(err, &v) {
		if !BuiltIn(k.Group) {
			return badRequest("%v", err)
		}
		_, version, _ = strings.Cut("/"+v.got, "/")
		version = version[strings.LastIndex(version, "/")+1:]
		err = fmt.Errorf("no kind %q is registered for version %q in scheme %q", k.Kind, v.got, schemeName)
	}
	if v := (*kindError)(nil); errors.As(err, &v) {
		kind = v.got
	}
	if len(data) == 0 || data[0] != '{' {
		return k.unrecognized(data, err)
	}
	return badRequest("%s in version %q cannot be handled as a %s: %v", kind, version, k.Kind, err)
}

// schemeName is what errors call the scheme that lacks a kind.
const schemeName = "pkg/runtime/scheme.go:111"

// unrecognized is the answer to a body that does not say what it is.
func (k *Kind) unrecognized(body []byte, err error) error {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return err
	}
	const most = 30
	start, more := body[:min(len(body), most)], ""
	if len(body) > most {
		more = " ..."
	}
	text := hex.EncodeToString(start)
	switch {
	case len(body) == 0:
		text = "<empty>"
	case body[0] == '{':
		text = string(start)
	}
	return badRequest("the object provided is unrecognized (must be of type %s): %v (%s%s)", k.Kind, err, text, more)
}

// toJSON returns a body as JSON. twice are the errors of names that come twice, where JSON cannot
// show them any more.
func (k *Kind) toJSON(contentType string, body []byte, strict bool) (data []byte, twice []error, err error) {
	switch mediaType(contentType) {
	case runtime.ContentTypeJSON:
		return body, nil, nil
	case runtime.ContentTypeYAML:
		return yamlToJSON(body, strict)
	case runtime.ContentTypeCBOR:
		data, err = cborToJSON(body)
		return data, nil, err
	case runtime.ContentTypeProtobuf:
		if k.Type != nil && k.Type.message {
			data, err = k.protoToJSON(body)
			return data, nil, err
		} else if k.Kind == "Scale" && k.Group == "autoscaling" {
			data, err = scaleToJSON(body)
			return data, nil, err
		}
	}
	return nil, nil, unsupported(k.accepted()...)
}

// yamlToJSON converts a body once, unless it has a name twice.
func yamlToJSON(body []byte, strict bool) (data []byte, twice []error, err error) {
	if json.Valid(body) {
		return body, nil, nil // as most clients send it
	}
	if err := checkAliases(body); err != nil {
		return nil, nil, err
	}
	var out json.RawMessage
	if strict {
		if err := yaml.UnmarshalStrict(body, &out); err == nil {
			return out, nil, nil
		} else if _, lines, ok := strings.Cut(err.Error(), "unmarshal errors:\n"); ok {
			for line := range strings.Lines(lines) { // a warning is a header, and so has one
				twice = append(twice, errors.New(strings.TrimSpace(line)))
			}
		}
	}
	if err := yaml.Unmarshal(body, &out); err != nil {
		return nil, nil, err
	}
	return out, twice, nil
}

// checkAliases refuses YAML whose aliases make more JSON of it than a body may have. The decoder
// bounds how many values they stand for, and not how long the values are, which share their text
// until they are written as JSON.
func checkAliases(body []byte) error {
	if bytes.IndexByte(body, '*') < 0 || bytes.IndexByte(body, '&') < 0 {
		return nil
	}
	value, err := typed.DeducedParseableType.FromYAML(typed.YAMLObject(body), typed.AllowDuplicates)
	if err != nil {
		return err
	}
	return checkSize(value.AsValue().Unstructured())
}

func cborToJSON(body []byte) ([]byte, error) {
	var v any
	if err := cbor.Unmarshal(body, &v); err != nil {
		return nil, err
	}
	if err := checkSize(v); err != nil {
		return nil, err
	}
	return encode(v)
}

// checkSize refuses a value whose JSON is sure to be longer than a body may be.
func checkSize(v any) error {
	if sizeLeft(v, wire.MaxBody) < 0 {
		return wire.TooLarge()
	}
	return nil
}

// sizeLeft returns what is left of so many bytes if the JSON of a value is as short as it can be.
func sizeLeft(v any, left int) int {
	switch v := v.(type) {
	case string:
		return left - len(v) - len(`""`)
	case []any:
		for i := range v {
			if left < 0 {
				break
			}
			left = sizeLeft(v[i], left-len(`,`))
		}
	case map[string]any:
		for name := range v {
			if left < 0 {
				break
			}
			left = sizeLeft(v[name], left-len(name)-len(`"":,`))
		}
	case map[any]any:
		for name := range v {
			if left < 0 {
				break
			}
			left = sizeLeft(v[name], sizeLeft(name, left-len(`:,`)))
		}
	case nil, bool:
		return left - len("null")
	}
	return left - 1
}

// protoMark begins each body in protobuf.
const protoMark = "k8s\x00"

// unwrap returns the envelope of a body in protobuf.
func unwrap(body []byte) (*runtime.Unknown, error) {
	message, ok := bytes.CutPrefix(body, []byte(protoMark))
	if !ok {
		return nil, fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", []byte(protoMark))
	}
	envelope := &runtime.Unknown{}
	return envelope, envelope.Unmarshal(message)
}

// messages calls do for each field of a body in protobuf, all of which are messages.
func messages(body []byte, do func(number uint64, value []byte) error) error {
	envelope, err := unwrap(body)
	if err != nil {
		return err
	}
	return fieldsOf(envelope.Raw, do)
}

// fieldsOf calls do for each field of a message, all of which are numbers, given as they are
// encoded, or have a length.
func fieldsOf(rest []byte, do func(number uint64, value []byte) error) error {
	for len(rest) > 0 {
		tag, n := binary.Uvarint(rest)
		size, length := binary.Uvarint(rest[max(n, 0):])
		if n > 0 && length > 0 && tag&7 == 0 {
			if err := do(tag>>3, rest[n:][:length]); err != nil {
				return err
			}
			rest = rest[n+length:]
			continue
		}
		if n <= 0 || length <= 0 || tag&7 != 2 || size > uint64(len(rest)-n-length) {
			return errors.New("the body has a field that is neither a number nor of a length")
		}
		value := rest[n+length:][:size]
		rest = rest[n+length+int(size):]
		if err := do(tag>>3, value); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kind) protoToJSON(body []byte) ([]byte, error) {
	envelope, err := unwrap(body)
	if err != nil {
		return nil, err
	}
	if envelope.Kind != "" && envelope.Kind != k.Kind || envelope.APIVersion != "" && envelope.APIVersion != k.GroupVersion().String() {
		return nil, fmt.Errorf("the body is a %s of %s", envelope.Kind, envelope.APIVersion)
	}
	value, _, err := k.Type.decode([]byte("{}"), false)
	if err != nil {
		return nil, err
	}
	if err := value.(message).Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	return encode(value)
}

// decodeDeleteOptions reads the body of a deletion.
func decodeDeleteOptions(contentType string, body []byte, into *metav1.DeleteOptions) error {
	k := &Kind{Kind: "DeleteOptions"}
	var err error
	if mediaType(contentType) == runtime.ContentTypeProtobuf {
		var envelope *runtime.Unknown
		if envelope, err = unwrap(body); err == nil {
			err = into.Unmarshal(envelope.Raw)
		}
	} else if body, _, err = k.toJSON(contentType, body, false); err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(body, into)
	}
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		return badRequest("%v", err)
	}
	if err == nil && into.Kind != "" && into.Kind != k.Kind {
		return badRequest("no kind %q is registered for version %q in scheme %q", into.Kind, into.APIVersion, schemeName)
	}
	return err
}

// PatchTypes are the media types of the patches that the Kind takes.
func (k *Kind) PatchTypes() []string {
	all := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if k.Type != nil && k.Type.patch != nil {
		all = append(all, string(types.StrategicMergePatchType))
	}
	return append(all, string(types.ApplyYAMLPatchType), string(types.ApplyCBORPatchType))
}
