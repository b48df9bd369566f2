package registry

import (
	"encoding/binary"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A TokenRequest asks for a token of a ServiceAccount.
type TokenRequest struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     TokenSpec         `json:"spec"`
}

// A TokenSpec says what the token is for.
type TokenSpec struct {
	Audiences         []string     `json:"audiences"`
	ExpirationSeconds *int64       `json:"expirationSeconds"`
	BoundObjectRef    *BoundObject `json:"boundObjectRef,omitempty"`
}

// A BoundObject is an object with which a token ends.
type BoundObject struct {
	Kind       string    `json:"kind,omitempty"`
	APIVersion string    `json:"apiVersion,omitempty"`
	Name       string    `json:"name,omitempty"`
	UID        types.UID `json:"uid,omitempty"`
}

var tokenKind = &Kind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}

// ParseTokenRequest reads the request for a token of the ServiceAccount account.
func ParseTokenRequest(account *metav1.ObjectMeta, contentType string, body []byte) (*TokenRequest, error) {
	r := &TokenRequest{}
	var err error
	if mediaType(contentType) == runtime.ContentTypeProtobuf {
		err = messages(body, r.field)
	} else if body, _, err = tokenKind.toJSON(contentType, body, false); err == nil {
		err = json.Unmarshal(body, r)
	}
	if err != nil {
		return nil, badRequest("%v", err)
	}
	if r.Spec.ExpirationSeconds == nil {
		hour := int64(time.Hour / time.Second)
		r.Spec.ExpirationSeconds = &hour
	}
	m, at := &r.Metadata, field.NewPath("spec", "expirationSeconds")
	var errs field.ErrorList
	switch seconds := *r.Spec.ExpirationSeconds; {
	case m.Name != "" && m.Name != account.Name:
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), m.Name, "must match the service account name if specified"))
	case m.Namespace != "" && m.Namespace != account.Namespace:
		errs = append(errs, field.Invalid(field.NewPath("metadata", "namespace"), m.Namespace,
			"must match the service account namespace if specified"))
	case seconds < 600:
		errs = append(errs, field.Invalid(at, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > 1<<32:
		errs = append(errs, field.Invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return nil, tokenKind.invalid(account.Name, errs)
	}
	m.Name, m.Namespace, m.UID, m.CreationTimestamp = account.Name, account.Namespace, account.UID, now()
	return r, nil
}

// field reads a field of the message.
func (r *TokenRequest) field(number uint64, value []byte) error {
	switch number {
	case 1:
		return r.Metadata.Unmarshal(value)
	case 2:
		return fieldsOf(value, func(number uint64, value []byte) error {
			switch number {
			case 1:
				r.Spec.Audiences = append(r.Spec.Audiences, string(value))
			case 3:
				r.Spec.BoundObjectRef = &BoundObject{}
				return fieldsOf(value, r.Spec.BoundObjectRef.field)
			case 4:
				n, _ := binary.Uvarint(value)
				seconds := int64(n)
				r.Spec.ExpirationSeconds = &seconds
			}
			return nil
		})
	}
	return nil
}

func (b *BoundObject) field(number uint64, value []byte) error {
	switch number {
	case 1:
		b.Kind = string(value)
	case 2:
		b.APIVersion = string(value)
	case 3:
		b.Name = string(value)
	case 4:
		b.UID = types.UID(value)
	}
	return nil
}

// Expires returns when the token ends.
func (r *TokenRequest) Expires() time.Time {
	return r.Metadata.CreationTimestamp.Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
}

// Answer returns the request with its token, as JSON.
func (r *TokenRequest) Answer(token string) []byte {
	return mustJSON(document{
		"kind": tokenKind.Kind, "apiVersion": tokenKind.GroupVersion().String(), "metadata": &r.Metadata, "spec": &r.Spec,
		"status": document{"token": token, "expirationTimestamp": metav1.NewTime(r.Expires())},
	})
}
