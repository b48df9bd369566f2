package request

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/standard"
)

// A Teller is how a request tells the informer that makes it of what its server has answered to
// writes. Whoever sends both sees which collection the informer follows. The functions are the
// methods of lw.Informer with these names.
type Teller struct {
	Tell        func(*Answer) error
	TellDeleted func(key types.NamespacedName, uid types.UID, version string) error

	ended atomic.Bool
	mu    sync.Mutex
	then  []func() // guarded by mu
}

// End says that the informer does not run any more.
func (t *Teller) End() {
	t.mu.Lock()
	t.ended.Store(true)
	then := t.then
	t.then = nil
	t.mu.Unlock()
	for _, f := range then {
		f()
	}
}

// AfterRun has End call f. It returns false if that was called.
func (t *Teller) AfterRun(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended.Load() {
		return false
	}
	t.then = append(t.then, f)
	return true
}

type tellerKey struct{}

// WithTeller returns a context that has t.
func WithTeller(ctx context.Context, t *Teller) context.Context {
	return context.WithValue(ctx, tellerKey{}, t)
}

// TellerOf returns the Teller of ctx, or nil. A probe has none: it may select a single object.
func TellerOf(ctx context.Context) *Teller {
	if IsProbe(ctx) {
		return nil
	}
	t, _ := ctx.Value(tellerKey{}).(*Teller)
	return t
}

// An Answer is what a server has answered to a write: an object as it is in bytes, and who it is.
// It is told to an informer in the place of the object, which the informer's source decodes.
type Answer struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Labels          map[string]string
	Kind            string
	Data            []byte // not to be changed or kept
	Encoding        decode.Encoding
	JSON            func() ([]byte, error) // makes JSON of Data, for a source that cannot decode protobuf
}

// For returns what d can decode.
func (a *Answer) For(d interface{ Protobuf() bool }) ([]byte, decode.Encoding, error) {
	if a.Encoding != decode.Protobuf || d.Protobuf() {
		return a.Data, a.Encoding, nil
	}
	data, err := a.JSON()
	return data, decode.JSON, err
}

// decoders are a sync.Pool for each type that answers were decoded into.
var decoders sync.Map

// Decode returns the object, of the type t.
func (a *Answer) Decode(t reflect.Type) (any, error) {
	pool, _ := decoders.LoadOrStore(t, new(sync.Pool))
	d, ok := pool.(*sync.Pool).Get().(standard.Decoder)
	if !ok {
		var err error
		if d, err = standard.New(t, decode.Options{}, false); err != nil {
			return nil, err
		}
	}
	data, enc, err := a.For(d)
	if err != nil {
		return nil, err
	}
	obj := d.One(data, enc)
	pool.(*sync.Pool).Put(d) // not deferred: one that has panicked is not used again
	return obj.Value, obj.Err
}

func (a *Answer) GetNamespace() string       { return a.Namespace }
func (a *Answer) GetName() string            { return a.Name }
func (a *Answer) GetUID() types.UID          { return a.UID }
func (a *Answer) GetResourceVersion() string { return a.ResourceVersion }

func (a *Answer) GetLabels() map[string]string { return a.Labels }
