package etcd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
)

// A Codec turns objects into values and back. Several goroutines use it at once. Encode gets an
// object without a resource version, and without a UID unless the object has one of its own. Decode
// must not keep data, which changes after it. What a value does not say of namespace, name and UID
// the [Collection] fills in.
type Codec[T any] interface {
	Encode(obj T) ([]byte, error)
	Decode(data []byte) (T, error)
}

// JSON is the codec that a [Collection] has by default. It encodes as package encoding/json does,
// and decodes with the decoder of [lw.HTTP], which reads what an API server reads: names of fields
// are case-sensitive, and an error says where in the object it is. It panics if T is no pointer to
// a struct.
func JSON[T lw.Object]() Codec[T] {
	c, err := newJSON[T]()
	if err != nil {
		panic("etcd: JSON: " + err.Error())
	}
	return c
}

func newJSON[T lw.Object]() (Codec[T], error) {
	d, err := newDecoders[T](decode.Options{OnlyJSON: true})
	return &jsonCodec[T]{d}, err
}

type jsonCodec[T lw.Object] struct{ decoders *decoders[T] }

func (c *jsonCodec[T]) Encode(obj T) ([]byte, error) { return encodeJSON(obj) }

func (c *jsonCodec[T]) Decode(data []byte) (T, error) { return c.decoders.decode(data, decode.JSON) }

func (c *jsonCodec[T]) decoder() string { return standard.Name(false) }

// encodeJSON returns obj as JSON.
func encodeJSON(obj any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(obj); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// decoders lend decoders, which are for one goroutine at a time and learn from each object.
type decoders[T lw.Object] struct{ pool sync.Pool }

func newDecoders[T lw.Object](opts decode.Options) (*decoders[T], error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is no pointer to a struct", t)
	}
	first, err := standard.New(t, opts, false)
	if err != nil {
		return nil, err
	}
	d := &decoders[T]{}
	d.pool.New = func() any {
		next, _ := standard.New(t, opts, false) // as the first
		return next
	}
	d.pool.Put(first)
	return d, nil
}

func (d *decoders[T]) decode(data []byte, enc decode.Encoding) (T, error) {
	var zero T
	decoder := d.pool.Get().(standard.Decoder)
	got := decoder.One(data, enc)
	d.pool.Put(decoder)
	if got.Err != nil {
		return zero, got.Err
	}
	obj := got.Value.(T)
	keepKind(obj, got.Ident)
	return obj, nil
}

// keepKind writes API version and kind into obj, which the decoder leaves out: an object that is
// written again must say what it is.
func keepKind(obj any, id decode.Ident) {
	if id.Kind == "" && id.APIVersion == "" {
		return
	}
	if o, ok := obj.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		if m, ok := o.GetObjectKind().(*metav1.TypeMeta); ok {
			m.APIVersion, m.Kind = id.APIVersion, id.Kind
		}
	}
}
