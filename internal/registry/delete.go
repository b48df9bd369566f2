package registry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// remove decides about a DELETE. An object that has finalizers, or is to have one for its
// dependents, is marked; so is one that stays for a while. All others are gone at once.
func (w *Write) remove(ctx context.Context, old *Object) (Outcome, error) {
	if old == nil {
		return Outcome{}, apierrors.NewNotFound(w.kind.GroupResource(), w.req.Key.Name)
	}
	if err := w.mayRemove(ctx, old); err != nil {
		return Outcome{}, err
	}
	if w.kind.Ends {
		return w.end(old)
	}
	o := *old
	o.Meta.Finalizers = w.finalizers(old)
	graceful, pending := w.grace(&o)
	if !graceful && !pending && len(o.Meta.Finalizers) == 0 {
		return Outcome{Action: Remove, Object: old, Code: http.StatusOK, Gone: true}, nil
	}
	out := Outcome{Action: Replace, Object: &o, Code: http.StatusOK}
	out.Gone = graceful && *o.Meta.DeletionGracePeriodSeconds == 0 && len(o.Meta.Finalizers) == 0
	if policy, older := policyOf(w.delete); older && *policy != metav1.DeletePropagationOrphan && !out.Gone {
		out.Code = http.StatusAccepted
	}
	if pending {
		out.Action, out.Object = Nothing, old
		return out, nil
	}
	if !graceful {
		mark(&o.Meta, now(), 0)
	}
	if same(&o, old) {
		out.Action, out.Object = Nothing, old
		return out, nil
	}
	if w.kind.Type != nil {
		o.Value = nil
		if err := w.kind.give(&o); err != nil {
			return Outcome{}, err
		}
		kept, err := w.kind.ValueOf(o.Value)
		if err != nil {
			return Outcome{}, err
		}
		if kept.Meta.DeletionTimestamp == nil || !slices.Equal(kept.Meta.Finalizers, o.Meta.Finalizers) {
			return Outcome{}, apierrors.NewInternalError(fmt.Errorf("%T keeps no deletionTimestamp or no finalizers, so %s cannot wait to be deleted", o.Value, old.Key()))
		}
	}
	return out, nil
}

// mayRemove refuses a deletion.
func (w *Write) mayRemove(ctx context.Context, old *Object) error {
	if err := cmp.Or(w.kind.CheckPreconditions(w.delete.Preconditions, &old.Meta), w.kind.checkImmortal(old)); err != nil {
		return err
	}
	return w.validate(ctx, nil, old, nil)
}

// CheckPreconditions refuses the deletion of another object than the client means. A precondition
// that is empty is one, too: no object has it.
func (k *Kind) CheckPreconditions(p *metav1.Preconditions, m *metav1.ObjectMeta) error {
	if p == nil {
		return nil
	}
	refused := func(err error) error { // kube-apiserver names the kind here
		return apierrors.NewConflict(schema.GroupResource{Group: k.Group, Resource: k.Kind}, m.Name, err)
	}
	if p.UID != nil && *p.UID != m.UID {
		return refused(fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, m.UID))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.ResourceVersion {
		return refused(fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, m.ResourceVersion))
	}
	return nil
}

// finalizers returns those that the object has while it is deleted.
func (w *Write) finalizers(old *Object) []string {
	finalizers := w.dependentsFinalizers(old)
	if f := w.kind.Cleanup; f != "" && !slices.Contains(finalizers, f) {
		finalizers = append(slices.Clip(finalizers), f)
	}
	return finalizers
}

// dependentsFinalizers is finalizers without Cleanup: one of the two that stand for the dependents
// comes and goes as the options say.
func (w *Write) dependentsFinalizers(old *Object) []string {
	const orphan, foreground = metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	finalizers := old.Meta.Finalizers
	policy, _ := policyOf(w.delete)
	if policy == nil {
		if !w.kind.orphans() || slices.Contains(finalizers, orphan) || slices.Contains(finalizers, foreground) {
			return finalizers
		}
		leave := metav1.DeletePropagationOrphan
		policy = &leave
	}
	want := map[metav1.DeletionPropagation]string{metav1.DeletePropagationOrphan: orphan, metav1.DeletePropagationForeground: foreground}[*policy]
	if want != "" && slices.Contains(finalizers, want) && !(slices.Contains(finalizers, orphan) && slices.Contains(finalizers, foreground)) {
		return finalizers
	}
	var out []string
	for _, f := range finalizers {
		if f != orphan && f != foreground {
			out = append(out, f)
		}
	}
	if want != "" {
		out = append(out, want)
	}
	return out
}

// policyOf returns what the options say about the dependents; nil: nothing. older says that they
// say it by the field that came before.
func policyOf(o *metav1.DeleteOptions) (policy *metav1.DeletionPropagation, older bool) {
	//lint:ignore SA1019 older clients send it
	orphan := o.OrphanDependents
	if orphan == nil {
		return o.PropagationPolicy, false
	}
	p := metav1.DeletePropagationBackground
	if *orphan {
		p = metav1.DeletePropagationOrphan
	}
	return &p, true
}

// Deleted returns the object as a deletion leaves it that waits for its finalizers.
func (o *Object) Deleted() *Object {
	out := *o
	out.Value = nil
	mark(&out.Meta, now(), 0)
	return &out
}

// mark says that the object is deleted at a time, after a grace period of so many seconds.
func mark(m *metav1.ObjectMeta, at metav1.Time, seconds int64) {
	if m.DeletionTimestamp == nil && m.Generation > 0 {
		m.Generation++
	}
	if m.DeletionTimestamp == nil || m.DeletionTimestamp.After(at.Time) || seconds > 0 {
		m.DeletionTimestamp = &at
	}
	m.DeletionGracePeriodSeconds = &seconds
}

// grace marks an object of a kind that stays for a while, if only for no second, and reports
// whether it has. pending says that it is marked already, and that the request does not make that
// shorter.
func (w *Write) grace(o *Object) (graceful, pending bool) {
	if w.kind.Grace == nil {
		return false, false
	}
	asked := w.delete.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		one := int64(1)
		asked = &one
	}
	m := &o.Meta
	if left := m.DeletionGracePeriodSeconds; m.DeletionTimestamp != nil {
		switch {
		case left == nil || *left == 0:
			return false, false
		case asked == nil || *asked >= *left:
			return false, true
		}
		at, seconds := metav1.NewTime(m.DeletionTimestamp.Add(time.Duration(*asked-*left)*time.Second)), *asked
		if t := now(); at.Before(&t) {
			at, seconds = t, min(1, seconds) // the shortest: somebody else may still see to a graceful end
		}
		mark(m, at, seconds)
		return true, false
	}
	seconds := w.kind.Grace(o, asked)
	if seconds < 0 {
		seconds = 1
	}
	mark(m, metav1.NewTime(now().Add(time.Duration(seconds)*time.Second)), seconds)
	return true, false
}
