package registry

import (
	"encoding/json"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Binding is what a scheduler decides about a Pod.
type Binding struct {
	Metadata metav1.ObjectMeta
	Target   struct{ Kind, Name string }
}

// ParseBinding reads a Binding. One that does not say where to is refused.
func ParseBinding(contentType string, body []byte) (*Binding, error) {
	b := &Binding{}
	var err error
	if mediaType(contentType) == runtime.ContentTypeProtobuf {
		err = messages(body, func(number uint64, value []byte) error {
			switch number {
			case 1:
				return b.Metadata.Unmarshal(value)
			case 2:
				return fieldsOf(value, func(number uint64, value []byte) error {
					switch number {
					case 1:
						b.Target.Kind = string(value)
					case 3:
						b.Target.Name = string(value)
					}
					return nil
				})
			}
			return nil
		})
	} else if body, _, err = (&Kind{Kind: "Binding"}).toJSON(contentType, body, false); err == nil {
		err = json.Unmarshal(body, b)
	}
	if err != nil {
		return nil, badRequest("%v", err)
	}
	at := field.NewPath("target")
	switch kind := b.Target.Kind; {
	case kind != "" && kind != "Node":
		err = field.ErrorList{field.NotSupported(at.Child("kind"), kind, []string{"Node", "<empty>"})}.ToAggregate()
	case b.Target.Name == "":
		err = field.ErrorList{field.Required(at.Child("name"), "")}.ToAggregate()
	}
	if err != nil {
		return nil, withoutReason(err) // as kube-apiserver, which makes no Status of it
	}
	return b, nil
}

// WithCondition returns conditions with one of a type that is true, in the place of the one that
// had the type. It is given a reason and a message where there are some.
func WithCondition(conditions []any, kind, reason, message string) []any {
	c := document{"type": kind, "status": "True", "lastProbeTime": nil, "lastTransitionTime": now().Format(time.RFC3339)}
	if reason != "" {
		c["reason"], c["message"] = reason, message
	}
	out := slices.Clone(conditions)
	for i, had := range out {
		if d, _ := had.(document); d["type"] == kind {
			if d["status"] == "True" {
				c["lastTransitionTime"] = d["lastTransitionTime"]
			}
			out[i] = c
			return out
		}
	}
	return append(out, c)
}

// ParseEviction reads the options of a deletion in an Eviction of the Pod that has a name.
func ParseEviction(name string, query url.Values, contentType string, body []byte) (*metav1.DeleteOptions, error) {
	eviction := struct {
		Metadata      metav1.ObjectMeta
		DeleteOptions metav1.DeleteOptions
	}{}
	if mediaType(contentType) == runtime.ContentTypeProtobuf {
		if err := messages(body, func(number uint64, value []byte) error {
			switch number {
			case 1:
				return eviction.Metadata.Unmarshal(value)
			case 2:
				return eviction.DeleteOptions.Unmarshal(value)
			}
			return nil
		}); err != nil {
			return nil, badRequest("%v", err)
		}
	} else {
		data, _, err := (&Kind{Kind: "Eviction"}).toJSON(contentType, body, false)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &eviction); err != nil {
			return nil, badRequest("%v", err)
		}
	}
	if eviction.Metadata.Name != name {
		return nil, badRequest("name in URL does not match name in Eviction object")
	}
	return ParseDeleteOptions(url.Values{"dryRun": query["dryRun"]}, "", mustJSON(&eviction.DeleteOptions))
}
