package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/listopts"
)

// ServeMemory serves m as r, until ctx is done: an API server without etcd. Beside what [Serve]
// answers, clients can create objects, replace and delete them. There is no patch, no apply, no
// subresource and no conversion of versions.
//
// The resource versions are those of m, and what m has compacted is expired here too. A write is
// answered when m has it; a list of the newest state that is asked for after it shows it.
func ServeMemory[T lw.Object](ctx context.Context, h *Handler, m *lw.Memory[T], r Resource[T]) error {
	res, err := resourceOf(r)
	if err != nil {
		return err
	}
	inf := lw.NewInformer(m, &lw.Options{Name: r.Name, Logger: h.opts.Logger, OnError: h.opts.OnError})
	c := newCollection(h, res, r.History)
	c.writes = &memoryWriter[T]{m, res, r}
	c.history.floor = func() uint64 {
		oldest, _ := listopts.ParseVersion(m.Oldest())
		return oldest
	}
	if r.Fresh != FreshHere {
		c.catchUp = func(context.Context) (string, error) { return m.ResourceVersion(), nil }
	}
	// The informer ends after follow, so that what ends follow is ctx.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(running) }()
	err = follow(ctx, h, inf, c)
	cancel()
	if ran := <-ended; !errors.Is(ran, context.Canceled) {
		err = errors.Join(err, ran)
	}
	return err
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

func (w *memoryWriter[T]) get(key lw.Key) (any, bool) { return w.memory.Get(key) }

func (w *memoryWriter[T]) identity(obj any) lw.Meta { return lw.MetaOf(obj.(T)) }
