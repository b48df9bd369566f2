package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
)

// Kube is the encoding in which kube-apiserver stores objects: protobuf behind "k8s\x00" for the
// types of the Kubernetes API, and JSON for custom resources. T is a generated API type, a pointer
// to a struct of your own with JSON tags, or *unstructured.Unstructured; the last two read JSON
// alone. The prefix is such as /registry/pods/.
//
// Objects have their API version and kind, and must have both to be written. A value that is
// encrypted at rest is an error of its object. Kube panics if T is no pointer to a struct.
func Kube[T lw.Object]() Codec[T] {
	d, err := newDecoders[T](decode.Options{})
	if err != nil {
		panic("etcd: Kube: " + err.Error())
	}
	return &kubeCodec[T]{decoders: d, kind: decode.KindOf(reflect.TypeFor[T]())}
}

type kubeCodec[T lw.Object] struct {
	decoders *decoders[T]
	kind     string // that T says; "": any
}

var (
	protobufMagic  = []byte("k8s\x00")
	encryptedMagic = []byte("k8s:enc:")
)

func (c *kubeCodec[T]) decoder() string { return standard.Name(false) }

func (c *kubeCodec[T]) Decode(data []byte) (T, error) {
	var zero T
	switch {
	case bytes.HasPrefix(data, protobufMagic):
		return c.checked(c.decoders.decode(data, decode.Protobuf))
	case bytes.HasPrefix(data, encryptedMagic):
		// The way is between the next two colons, such as aescbc:v1 or kms:v2.
		way, _, _ := bytes.Cut(data[len(encryptedMagic):], []byte{':'})
		return zero, fmt.Errorf("the value is encrypted (%.20q)", way)
	case len(data) == 0:
		return zero, errors.New("the value is empty")
	}
	return c.checked(c.decoders.decode(data, decode.JSON))
}

// checked returns obj if it is of the kind that T says.
func (c *kubeCodec[T]) checked(obj T, err error) (T, error) {
	if err != nil || c.kind == "" {
		return obj, err
	}
	if is := kindOf(obj).Kind; is != "" && is != c.kind {
		var zero T
		return zero, fmt.Errorf("want %s, got %.100s", c.kind, is)
	}
	return obj, nil
}

func kindOf(obj any) schema.GroupVersionKind {
	if o, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		return o.GetObjectKind().GroupVersionKind()
	}
	return schema.GroupVersionKind{}
}

// Encode writes protobuf if T has it, as the types of the API do.
func (c *kubeCodec[T]) Encode(obj T) ([]byte, error) {
	kind := kindOf(obj)
	if kind.Kind == "" || kind.Version == "" {
		return nil, errors.New("the object has no API version or no kind, which are stored with it")
	}
	m, ok := any(obj).(interface{ Marshal() ([]byte, error) })
	if !ok {
		return encodeJSON(obj)
	}
	raw, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	var u runtime.Unknown
	u.APIVersion, u.Kind = kind.ToAPIVersionAndKind()
	u.Raw = raw
	envelope, err := u.Marshal()
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(protobufMagic), envelope...), nil
}
