package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/go-lw/lw/internal/wire"
)

// maxOperations is how many operations a JSON patch may have, as with kube-apiserver.
const maxOperations = 10000

// A JSON patch can copy what it has copied, and so grow without a bound. The library has its limit
// in a variable, which kube-apiserver sets to the same.
func init() { jsonpatch.AccumulatedCopySizeLimit = wire.MaxBody }

func (w *Write) patchType() types.PatchType { return types.PatchType(mediaType(w.req.ContentType)) }

func (w *Write) isApply() bool {
	t := w.patchType()
	return w.req.Verb == Patch && (t == types.ApplyYAMLPatchType || t == types.ApplyCBORPatchType)
}

// readPatch reads the patch, as tidy JSON if it is an apply.
func (w *Write) readPatch() (err error) {
	body := w.req.Body
	switch t := w.patchType(); {
	case t == types.ApplyCBORPatchType:
		body, err = cborToJSON(body)
	case t == types.ApplyYAMLPatchType:
		body, w.twice, err = yamlToJSON(body, true)
	case !json.Valid(body):
		err = errors.New("invalid JSON")
	}
	if err == nil && w.isApply() {
		var twice []error
		body, twice, err = tidy(body)
		w.twice = append(w.twice, twice...)
	}
	status, what := apierrors.APIStatus(nil), "patch"
	if w.patchType() == types.ApplyYAMLPatchType {
		what = "YAML"
	}
	if errors.As(err, &status) {
		return err
	} else if err != nil {
		return badRequest("error decoding %s: %v", what, err)
	}
	w.patch = body
	return nil
}

// patched returns what the patch makes of old.
func (w *Write) patched(ctx context.Context, old *Object) (*Object, error) {
	if w.isApply() {
		return w.applied(ctx, old)
	}
	if old == nil {
		return nil, apierrors.NewNotFound(w.kind.GroupResource(), w.req.Key.Name)
	}
	before := w.kind.AppendJSON(nil, old)
	var after []byte
	var lost []error
	var err error
	switch w.patchType() {
	case types.JSONPatchType:
		after, lost, err = jsonPatch(before, w.patch)
	case types.MergePatchType:
		after, lost, err = mergePatch(before, w.patch)
	default:
		after, lost, err = w.kind.Type.strategicPatch(before, w.patch)
	}
	if err != nil {
		return nil, err
	}
	if len(after) > wire.MaxBody {
		return nil, wire.TooLarge()
	}
	strict := w.opts.validation != metav1.FieldValidationIgnore
	after, _, err = tidy(after)
	var o *Object
	var more []error
	if err == nil {
		o, more, err = w.object(after, strict)
	}
	if err == nil && w.opts.validation == metav1.FieldValidationStrict && len(lost)+len(more) > 0 {
		err = runtime.NewStrictDecodingError(append(lost, more...))
	}
	if err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(after), err.Error())})
	}
	if strict {
		w.warn(append(lost, more...))
	}
	return o, w.checkName(o)
}

// withoutReason is an answer 500 with the text of err.
func withoutReason(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

// jsonPatch applies a patch of RFC 6902.
func jsonPatch(before, patch []byte) (after []byte, lost []error, err error) {
	var known []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		From  string `json:"from"`
		Value any    `json:"value"`
	}
	if lost, err = kjson.UnmarshalStrict(patch, &known); err != nil {
		return nil, nil, badRequest("error decoding patch: %v", err)
	}
	for i, err := range lost {
		lost[i] = fmt.Errorf("json patch %w", err)
	}
	if len(known) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(known)))
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, badRequest("%v", err)
	}
	defer func() {
		if p := recover(); p != nil {
			err = badRequest("the patch cannot be applied: %v", p)
		}
	}()
	if after, err = operations.Apply(before); errors.As(err, new(*jsonpatch.AccumulatedCopySizeError)) {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(err.Error())
	} else if err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, lost, nil
}

// mergePatch applies a patch of RFC 7386.
func mergePatch(before, patch []byte) (after []byte, lost []error, err error) {
	patch, lost, err = tidy(patch)
	if err == nil && patch[0] != '{' {
		err = fmt.Errorf("json: cannot unmarshal %.20q into an object", patch)
	}
	if err != nil {
		return nil, nil, badRequest("error decoding patch: %v", err)
	}
	var object, changes any
	if err := errors.Join(kjson.UnmarshalCaseSensitivePreserveInts(before, &object), kjson.UnmarshalCaseSensitivePreserveInts(patch, &changes)); err != nil {
		return nil, nil, badRequest("%v", err)
	}
	after, err = encode(merged(object, changes))
	return after, lost, err
}

// merged applies a merge patch. json-patch would decode what is deep again for each level.
func merged(value, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := value.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for name, change := range changes {
		if change == nil {
			delete(out, name)
		} else {
			out[name] = merged(out[name], change)
		}
	}
	return out
}

// strategicPatch applies a patch that merges lists as the tags of the Type say.
func (t *Type) strategicPatch(before, patch []byte) (after []byte, lost []error, err error) {
	var original, changes map[string]any
	if lost, err = kjson.UnmarshalStrict(patch, &changes); err != nil {
		return nil, nil, badRequest("error decoding patch: %v", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(before, &original); err != nil {
		return nil, nil, err
	}
	merged, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(original, changes, t.patch)
	switch {
	case err == nil:
		after, err = json.Marshal(merged)
		return after, lost, err
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, nil, unprocessable(err)
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, nil, badRequest("%v", err)
	}
	return nil, nil, withoutReason(err) // the other errors are texts alone, and kube-apiserver takes them for its own
}
