package registry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Request is a write, as its client has sent it.
type Request struct {
	Verb        Verb
	Key         types.NamespacedName // of the path; a creation has no name
	Subresource string
	Query       url.Values // the options
	ContentType string
	Body        []byte
	UserAgent   string

	// MayCreate is asked before an apply creates an object, and refuses that by an error. nil: it may.
	MayCreate func(ctx context.Context) error
	// Whole says that the request comes from the server's own program: an update replaces the status
	// as well, and the options of the body do not count.
	Whole bool
	// Admitted says that Mutate and Admit of the Kind are not asked.
	Admitted bool
	// Options are those of a deletion; nil: they are in the body or the query.
	Options *metav1.DeleteOptions
}

// A Write is a request that was read. It is used by one goroutine.
type Write struct {
	// DryRun says that nothing may be stored: Run leaves the store as it is.
	DryRun bool
	// Warnings are for the header Warning of the answer. They may grow with each Next.
	Warnings []string

	kind     *Kind
	req      Request
	opts     options
	delete   *metav1.DeleteOptions
	sent     *Object // the body of a create or an update
	patch    []byte  // JSON
	twice    []error // of the names that come twice in an apply
	attempts int
	home     func(namespace string) error // of the Store; nil: every namespace is one
}

// An Action is what becomes of the stored object.
type Action int

const (
	Nothing Action = iota // the object stays as it is
	Insert                // the object is stored; there was none
	Replace
	Remove // the object is removed; it is the last state that is answered
)

// An Outcome is the decision about a write.
type Outcome struct {
	Action Action
	Object *Object // what is stored and answered
	// Code is the HTTP status of the answer. Gone says that the object of a deletion is gone: the
	// answer is a Status. With Replace it is removed once it is stored, as kube-apiserver does with
	// Pods: controllers see the deletionTimestamp before the end.
	Code int
	Gone bool
	// Scale is what is answered instead of the Object, for the subresource scale.
	Scale []byte
}

// Prepare reads a request, as far as that is possible without the stored object.
func (k *Kind) Prepare(req Request) (w *Write, err error) {
	defer recovered(&err)
	w = &Write{kind: k, req: req}
	if err := k.checkPath(&req); err != nil {
		return nil, err
	}
	if req.Verb == Delete {
		w.delete = req.Options
		if w.delete == nil {
			if w.delete, err = ParseDeleteOptions(req.Query, req.ContentType, req.Body); err != nil {
				return nil, err
			}
		}
		w.DryRun = len(w.delete.DryRun) > 0
		return w, nil
	}
	if req.Verb == Patch && !slices.Contains(k.PatchTypes(), mediaType(req.ContentType)) {
		return nil, unsupported(k.PatchTypes()...)
	}
	if w.opts, err = parseOptions(&req); err != nil {
		return nil, err
	}
	w.DryRun = len(req.Query["dryRun"]) > 0
	switch {
	case req.Verb == Patch:
		err = w.readPatch()
	case req.Subresource == SubScale:
	default:
		if w.sent, err = w.decode(req.Body); err == nil && req.Verb == Update {
			err = w.checkName(w.sent)
		}
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// checkPath refuses a request that no path of the resource takes.
func (k *Kind) checkPath(req *Request) error {
	notAllowed := apierrors.NewMethodNotSupported(k.GroupResource(), string(req.Verb))
	switch {
	case k.Cluster && req.Key.Namespace != "":
		return apierrors.NewNotFound(k.GroupResource(), req.Key.Name)
	case (req.Verb == Create) != (req.Key.Name == ""), !k.Cluster && req.Key.Namespace == "" && req.Verb == Create:
		return notAllowed
	case !k.Cluster && req.Key.Namespace == "":
		return apierrors.NewGenericServerResponse(http.StatusNotFound, string(req.Verb), k.GroupResource(), req.Key.Name, "", 0, false)
	case req.Subresource == SubStatus && k.Status, req.Subresource == SubScale && k.Scale != nil,
		req.Subresource != "" && k.part(req.Subresource) != nil:
		if req.Verb != Update && (req.Verb != Patch || req.Subresource == SubFinalize) {
			return notAllowed
		}
	case req.Subresource != "":
		return apierrors.NewNotFound(k.GroupResource(), req.Key.Name)
	}
	return nil
}

// checkName refuses an object that is not that of the path, and gives it the path's namespace.
func (w *Write) checkName(o *Object) error {
	if err := w.checkNamespace(o); err != nil {
		return err
	}
	switch name := w.req.Key.Name; o.Meta.Name {
	case name:
		return nil
	case "":
		return badRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", name)
	default:
		return badRequest("the name of the object (%s) does not match the name on the URL (%s)", o.Meta.Name, name)
	}
}

func (w *Write) checkNamespace(o *Object) error {
	switch want := w.req.Key.Namespace; {
	case o.Meta.Namespace == "" || w.kind.Cluster:
		o.Meta.Namespace = want
	case o.Meta.Namespace != want:
		return badRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// Next decides about the write, if old is what is stored; nil: nothing.
func (w *Write) Next(ctx context.Context, old *Object) (out Outcome, err error) {
	defer recovered(&err)
	w.attempts++
	switch {
	case w.req.Verb == Create:
		out, err = w.create(ctx, old)
	case w.req.Verb == Delete:
		out, err = w.remove(ctx, old)
	case w.req.Subresource == SubScale:
		out, err = w.scale(ctx, old)
	default:
		out, err = w.update(ctx, old)
	}
	if err == nil && w.req.Verb != Create && out.Object.Key() != w.req.Key {
		err = apierrors.NewInternalError(fmt.Errorf("the write of %s would store %s", w.req.Key, out.Object.Key()))
	}
	if err != nil {
		return Outcome{}, err
	}
	return out, nil
}

// Remove does what a DELETE of the object would, for who deletes many. One that is gone is no
// error.
func (k *Kind) Remove(ctx context.Context, store Store, key types.NamespacedName, options *metav1.DeleteOptions) error {
	w, err := k.Prepare(Request{Verb: Delete, Key: key, Options: options.DeepCopy()})
	if err == nil {
		_, err = w.Run(ctx, store)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// recovered makes an error of a panic, which a function of the user's may have raised.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = apierrors.NewInternalError(fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
	}
}

// A Store has the objects of a Kind, in the version of that: it converts what it stores in another
// one. Its methods return errors that are Status errors.
type Store interface {
	// Get returns nil if there is no object.
	Get(ctx context.Context, key types.NamespacedName) (*Object, error)
	// Create stores an object and gives it its version and UID. It fails with AlreadyExists.
	Create(ctx context.Context, obj *Object) (*Object, error)
	// Replace and Delete fail with Conflict or NotFound unless old, which Get has returned, is still
	// what is stored. They return what is stored then, or was.
	Replace(ctx context.Context, obj, old *Object) (*Object, error)
	Delete(ctx context.Context, old *Object) (*Object, error)
}

// A Housed is a Store whose objects need a namespace. Home says why a namespace takes no new ones.
type Housed interface {
	Home(namespace string) error
}

// How often a write is tried again, as kube-apiserver does.
const (
	maxNames   = 8 // a generated name that is taken
	maxPatches = 6 // a patch that conflicts
)

// Run does the write. It tries again what has met another write, unless the request forbids that.
func (w *Write) Run(ctx context.Context, store Store) (Outcome, error) {
	for n := 1; ; n++ {
		out, err := w.attempt(ctx, store)
		if err == nil || ctx.Err() != nil {
			return out, err
		}
		switch {
		case apierrors.IsAlreadyExists(err) && w.req.Verb == Create && w.generates():
			if n == maxNames {
				return out, apierrors.NewGenerateNameConflict(w.kind.GroupResource(), w.sent.Meta.GenerateName, 1)
			}
		case !errors.As(err, new(*raceError)):
			return out, err
		case w.req.Verb == Patch && n == maxPatches:
			return out, errors.Unwrap(err)
		}
	}
}

// A raceError is the error of a Store that has another object than the decision was about.
type raceError struct{ error }

func (e *raceError) Unwrap() error { return e.error }

func raced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return &raceError{err}
	}
	return err
}

func (w *Write) attempt(ctx context.Context, store Store) (out Outcome, err error) {
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	k, key := w.kind, w.req.Key
	if w.req.Verb == Create {
		key.Name = w.sent.Meta.Name
	}
	var old *Object
	if w.req.Verb != Create || w.DryRun && key.Name != "" {
		if old, err = store.Get(ctx, key); err != nil {
			return Outcome{}, err
		}
	}
	if housed, ok := store.(Housed); ok {
		w.home = housed.Home
	}
	if out, err = w.Next(ctx, old); err == nil && w.DryRun && out.Action == Insert && out.Object.Meta.UID == "" {
		out.Object.Meta.UID, out.Object.Value = anyUID(), nil
		err = k.give(out.Object)
	}
	if err != nil || w.DryRun || out.Action == Nothing {
		return out, err
	}
	var stored *Object
	switch out.Action {
	case Insert:
		stored, err = store.Create(ctx, out.Object)
		if w.req.Verb != Create {
			err = raced(err)
		} else if apierrors.IsAlreadyExists(err) {
			err = w.taken(ctx, store, out.Object, err)
		}
	case Replace:
		if stored, err = store.Replace(ctx, out.Object, old); err == nil && out.Gone {
			marked := stored
			linger(ctx, k.Linger)
			if stored, err = store.Delete(ctx, marked); apierrors.IsNotFound(err) {
				stored, err = marked, nil
			}
		}
		err = raced(err)
	default:
		stored, err = store.Delete(ctx, old)
		err = raced(err)
	}
	if err != nil || !out.Gone && out.Action == Remove {
		return out, err // an object that is gone with its last finalizer is answered without it
	}
	if out.Object = stored; out.Scale != nil {
		out.Scale, err = k.ScaleOf(out.Object)
	}
	return out, err
}

// anyUID returns the UID of an object that a dry run does not store.
func anyUID() types.UID {
	a, b := rand.Uint64(), rand.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&(1<<48-1)))
}

// taken is the error of a creation whose name another object has.
func (w *Write) taken(ctx context.Context, store Store, obj *Object, err error) error {
	other, _ := store.Get(ctx, obj.Key())
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && other != nil && other.Meta.DeletionTimestamp != nil {
		return w.kind.deleting(status)
	}
	return err
}

// deleting is an AlreadyExists that says that the other object will be gone soon.
func (k *Kind) deleting(err *apierrors.StatusError) error {
	status := *err.ErrStatus.DeepCopy()
	status.Message = "object is being deleted: " + status.Message
	return &apierrors.StatusError{ErrStatus: status}
}

func (w *Write) generates() bool { return w.sent.Meta.Name == "" && w.sent.Meta.GenerateName != "" }

// Success is the answer to a deletion after which the object is gone. As kube-apiserver's, it does
// not say its code.
func (k *Kind) Success(o *Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: o.Meta.Name, Group: k.Group, Kind: k.Plural, UID: o.Meta.UID},
	}
}

// linger waits for d, or until ctx ends.
func linger(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
