package values

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const embeds = "x-kubernetes-embedded-resource"

// embedded returns what is wrong with the types and the metadata of the objects within a value.
func embedded(at *field.Path, s *spec.Schema, value any) (errs field.ErrorList) {
	if object, ok := value.(map[string]any); ok {
		if is, _ := s.Extensions.GetBool(embeds); is {
			errs = append(wrongType(at, object), wrongMeta(at.Child("metadata"), object)...)
		}
	}
	within(at, s, value, func(at *field.Path, s *spec.Schema, value any) { errs = append(errs, embedded(at, s, value)...) })
	return errs
}

// wrongType returns what is wrong with the kind of an object, and with its version.
func wrongType(at *field.Path, object map[string]any) (errs field.ErrorList) {
	for _, name := range []string{"apiVersion", "kind"} {
		value, had := object[name]
		if !had {
			errs = append(errs, field.Required(at.Child(name), ""))
			continue
		}
		text, ok := value.(string)
		var wrong string
		switch {
		case !ok:
			wrong = "must be a string"
		case text == "":
			wrong = "must not be empty"
		case name == "apiVersion":
			if _, err := schema.ParseGroupVersion(text); err != nil {
				wrong = err.Error()
			}
		default:
			if said := utilvalidation.IsDNS1035Label(strings.ToLower(text)); len(said) > 0 {
				wrong = "may have mixed case, but should otherwise match: " + strings.Join(said, ",")
			}
		}
		if wrong != "" {
			errs = append(errs, field.Invalid(at.Child(name), value, wrong))
		}
	}
	return errs
}

// wrongMeta returns what is wrong with the metadata of an object, which needs no name.
func wrongMeta(at *field.Path, object map[string]any) field.ErrorList {
	value, had := object["metadata"]
	if !had {
		return nil
	}
	var m metav1.ObjectMeta
	if err := json.Unmarshal(asJSON(value), &m); err != nil {
		return field.ErrorList{field.Invalid(at, value, err.Error())}
	}
	if m.Name == "" {
		m.Name = "any"
	}
	names := func(name string, prefix bool) []string {
		if prefix {
			return content.IsPathSegmentPrefix(name)
		}
		return content.IsPathSegmentName(name)
	}
	return validation.ValidateObjectMetaAccessor(&m, m.Namespace != "", names, at)
}
