package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/registry"
	"github.com/go-lw/lw/internal/wire"
)

// bindings is the resource by which clients that know no subresources give Pods their nodes.
const bindings = "bindings"

type document = map[string]any

var pods = schema.GroupResource{Resource: "pods"}

// posts answer the requests to those subresources that have no object of their own.
var posts map[string]func(x *exchange, s *Server) error

func init() {
	posts = map[string]func(x *exchange, s *Server) error{
		registry.SubEviction: (*exchange).evict, registry.SubBinding: (*exchange).bind, token: (*exchange).token,
	}
}

// subs returns the subresources of the collection.
func (c *Collection) subs() []string {
	var all []string
	if c.Resource.Status {
		all = append(all, registry.SubStatus)
	}
	if c.Resource.Scale != nil {
		all = append(all, registry.SubScale)
	}
	all = append(all, c.kind.Parts()...)
	if c.Resource.groupResource() == pods {
		all = append(all, registry.SubBinding, registry.SubEviction)
	}
	if c.Resource.Token != nil {
		all = append(all, token)
	}
	return all
}

// token is the subresource of ServiceAccounts by which they get tokens.
const token = "token"

// token answers with a token of a ServiceAccount.
func (x *exchange) token(*Server) error {
	_, body, err := x.posted()
	if err != nil {
		return err
	}
	account, err := x.collection.history.Get(x.key())
	if err != nil {
		return err
	}
	r, err := registry.ParseTokenRequest(&objectOf(account, account.Version).Meta, x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	text, err := x.collection.Resource.Token(x.r.Context(), r)
	if err != nil {
		return err
	}
	return x.answered(func() error {
		wire.WriteBody(x.w, fullJSON.ContentType(false), http.StatusCreated, r.Answer(text))
		return nil
	})
}

// created answers a request that has created what nobody can read.
func (x *exchange) created(f wire.Format) error {
	return x.answered(func() error {
		wire.WriteStatus(x.w, f, &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
		})
		return nil
	})
}

// posted reads a request to one of posts.
func (x *exchange) posted() (f wire.Format, body []byte, err error) {
	if x.req.Verb != Create {
		return f, nil, x.notAllowed()
	}
	if f, err = x.negotiate(wire.WantStatus); err == nil {
		body, err = wire.ReadBody(x.w, x.r)
	}
	return f, body, err
}

// pod is what these requests read of a Pod.
type pod struct {
	Spec struct {
		NodeName        string
		SchedulingGates []any
	}
	Status struct {
		Phase      string
		Conditions []any
	}
}

// pod reads the Pod that the request is about.
func (x *exchange) pod() (*stored, pod, error) {
	var p pod
	obj, err := x.collection.history.Get(x.key())
	if err == nil {
		err = read(obj, &p)
	}
	return obj, p, err
}

// read decodes an object that is stored.
func read(obj *stored, into any) error {
	o := &obj.Value.Object
	return json.Unmarshal(registry.AppendObject(nil, "", "", &o.Meta, o), into)
}

// change writes a merge patch to an object, as the server itself does at a subresource, if the
// object is still at version. req says the rest.
func (x *exchange) change(c *Collection, version string, patch document, req registry.Request) (
	out registry.Outcome, err error) {
	meta, _ := patch["metadata"].(document)
	if meta == nil {
		meta = document{}
	}
	meta["resourceVersion"], patch["metadata"] = version, meta
	w, err := x.patch(c, patch, req)
	if err == nil {
		out, err = w.Run(x.r.Context(), store{c})
	}
	return out, err
}

// patch prepares a merge patch of the server itself.
func (x *exchange) patch(c *Collection, patch document, req registry.Request) (*registry.Write, error) {
	req.Verb, req.ContentType, req.Body = registry.Patch, string(types.MergePatchType), mustJSON(patch)
	req.UserAgent, req.Whole = x.r.UserAgent(), true
	return c.kind.Prepare(req)
}

// bind gives a Pod the node that a Binding says.
func (x *exchange) bind(s *Server) error {
	f, body, err := x.posted()
	if err != nil {
		return err
	}
	binding, err := registry.ParseBinding(x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	if x.req.Name == "" { // it is one of bindings, whose UID says nothing
		x.req.Name, binding.Metadata.UID = binding.Metadata.Name, ""
	}
	if binding.Metadata.Name != x.req.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if binding.Target.Kind == "Node" { // as the admission plugin PodTopologyLabels asks for
		binding.Metadata.Labels = s.place(binding.Target.Name, binding.Metadata.Labels)
	}
	for {
		if err = x.assign(binding); !errors.Is(err, errAgain) {
			break
		}
	}
	if err != nil {
		return err
	}
	return x.created(f)
}

// place returns the given labels with those that say where a Node is.
func (s *Server) place(node string, given map[string]string) map[string]string {
	nodes := s.served("", "nodes")
	if nodes == nil {
		return given
	}
	obj, err := nodes.history.Get(types.NamespacedName{Name: node})
	if err != nil { // a Pod may have a Node that there is not
		return given
	}
	all := maps.Clone(given)
	for _, name := range []string{"topology.kubernetes.io/zone", "topology.kubernetes.io/region"} {
		if value, ok := obj.Value.Object.Meta.Labels[name]; ok {
			if all == nil {
				all = map[string]string{}
			}
			all[name] = value
		}
	}
	return all
}

// errAgain says that an object has changed since it was read.
var errAgain = errors.New("apiserver: the object has changed meanwhile")

const unmet = "Precondition failed"

func (x *exchange) assign(b *registry.Binding) error {
	obj, p, err := x.pod()
	if err != nil {
		return err
	}
	refused := func(format string, args ...any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, x.req.Name, fmt.Errorf(format, args...))
	}
	version := objectOf(obj, obj.Version).Meta.ResourceVersion
	switch m := &b.Metadata; {
	case m.UID != "" && m.UID != obj.UID:
		return apierrors.NewConflict(pods, x.req.Name, fmt.Errorf("%s: UID in precondition: %v, UID in object meta: %v",
			unmet, m.UID, obj.UID))
	case m.ResourceVersion != "" && m.ResourceVersion != version:
		return apierrors.NewConflict(pods, x.req.Name, fmt.Errorf(
			"%s: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", unmet, m.ResourceVersion, version))
	case obj.Value.Object.Meta.DeletionTimestamp != nil:
		return refused("pod %s is being deleted, cannot be assigned to a host", x.req.Name)
	case p.Spec.NodeName != "":
		return refused("pod %v is already assigned to node %q", x.req.Name, p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return refused("pod %v has non-empty .spec.schedulingGates", x.req.Name)
	}
	scheduled := registry.WithCondition(p.Status.Conditions, "PodScheduled", "", "")
	meta := document{}
	if len(b.Metadata.Annotations) > 0 { // a null would take away those of the Pod
		meta["annotations"] = b.Metadata.Annotations
	}
	if len(b.Metadata.Labels) > 0 {
		meta["labels"] = b.Metadata.Labels
	}
	_, err = x.change(x.collection, version, document{
		"metadata": meta,
		"spec":     document{"nodeName": b.Target.Name},
		"status":   document{"nominatedNodeName": nil, "conditions": scheduled},
	}, registry.Request{
		Key: x.key(), Subresource: registry.SubBinding, Query: url.Values{"dryRun": x.r.URL.Query()["dryRun"]},
	})
	if apierrors.IsConflict(err) {
		return errAgain
	}
	return err
}

// evict deletes a Pod as an Eviction says, unless the admission of the Eviction or a
// PodDisruptionBudget forbids it.
func (x *exchange) evict(s *Server) error {
	f, body, err := x.posted()
	if err != nil {
		return err
	}
	options, err := registry.ParseEviction(x.req.Name, x.r.URL.Query(), x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return err
	}
	req := registry.Request{Key: x.key(), Subresource: registry.SubEviction, Query: url.Values{"dryRun": options.DryRun}}
	if err := x.admit(req); err != nil {
		return err
	}
	if err := x.budget(s, len(options.DryRun) > 0); err != nil {
		return err
	}
	req.Admitted = true
	if len(options.DryRun) == 0 {
		if err := x.disrupt(options, req); err != nil {
			return err
		}
	}
	w, err := x.collection.kind.Prepare(registry.Request{
		Verb: registry.Delete, Key: x.key(), Options: options, Admitted: true,
	})
	if err == nil {
		_, err = w.Run(x.r.Context(), store{x.collection})
	}
	if err != nil {
		return err
	}
	return x.created(f)
}

// admit asks for the admission of a request that has no object of its own, by a write of the Pod
// that is only decided about.
func (x *exchange) admit(req registry.Request) error {
	obj, _, err := x.pod()
	if err != nil {
		return err
	}
	w, err := x.patch(x.collection, document{}, req)
	if err == nil {
		_, err = w.Next(x.r.Context(), objectOf(obj, obj.Version))
	}
	return err
}

// disrupt writes down in a Pod that it is evicted. The options are then for the Pod as that leaves
// it.
func (x *exchange) disrupt(options *metav1.DeleteOptions, req registry.Request) error {
	for {
		obj, p, err := x.pod()
		if err != nil {
			return err
		}
		at := objectOf(obj, obj.Version)
		if err := x.collection.kind.CheckPreconditions(options.Preconditions, &at.Meta); err != nil {
			return err
		}
		patch := document{"status": document{"conditions": registry.WithCondition(p.Status.Conditions,
			"DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting")}}
		out, err := x.change(x.collection, at.Meta.ResourceVersion, patch, req)
		if apierrors.IsConflict(err) {
			continue // it has changed meanwhile
		}
		if p := options.Preconditions; err == nil && p != nil && p.ResourceVersion != nil {
			p.ResourceVersion = &out.Object.Meta.ResourceVersion
		}
		return err
	}
}

// budget counts an eviction in the PodDisruptionBudget of the Pod, or refuses it.
func (x *exchange) budget(s *Server, dryRun bool) error {
	obj, p, err := x.pod()
	if err != nil {
		return err
	}
	m := &obj.Value.Object.Meta
	if slices.Contains([]string{"Succeeded", "Failed", "Pending"}, p.Status.Phase) || m.DeletionTimestamp != nil {
		return nil
	}
	budgets := s.served("policy", "poddisruptionbudgets")
	if budgets == nil || len(m.Labels) == 0 {
		return nil
	}
	for {
		all, err := budgets.of(m)
		switch {
		case err != nil || len(all) == 0:
			return err
		case len(all) > 1:
			return &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			}}
		}
		b := all[0]
		healthy := b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
		if !ready(p.Status.Conditions) && (healthy || b.Spec.UnhealthyPodEvictionPolicy == "AlwaysAllow") {
			return nil // it is no loss
		}
		if err := b.allows(); err != nil || dryRun {
			return err
		}
		sub := ""
		if budgets.Resource.Status {
			sub = registry.SubStatus
		}
		now := time.Now().UTC().Format(time.RFC3339)
		_, err = x.change(budgets, b.version, document{"status": document{
			"disruptionsAllowed": b.Status.DisruptionsAllowed - 1, "disruptedPods": document{m.Name: now},
		}}, registry.Request{Key: b.key, Subresource: sub})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// served returns the collection of a resource, or nil.
func (s *Server) served(group, resource string) *Collection {
	for _, c := range s.all() {
		if c.Resource.Group == group && c.Resource.Resource == resource && c.served.Load() {
			return c
		}
	}
	return nil
}

// ready reports whether a Pod with these conditions is.
func ready(conditions []any) bool {
	for _, c := range conditions {
		if c, ok := c.(document); ok && c["type"] == "Ready" {
			return c["status"] == "True"
		}
	}
	return false
}

// A budget is a PodDisruptionBudget.
type budget struct {
	key     types.NamespacedName
	version string

	Metadata struct{ Generation int64 }
	Spec     struct {
		Selector                   *metav1.LabelSelector
		UnhealthyPodEvictionPolicy string
	}
	Status struct {
		ObservedGeneration                                 int64
		DisruptionsAllowed, CurrentHealthy, DesiredHealthy int32
	}
}

// of returns the budgets of a Pod.
func (c *Collection) of(m *metav1.ObjectMeta) (all []budget, err error) {
	page, err := c.history.List(m.Namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, obj := range page.Items {
		b := budget{key: obj.Key, version: objectOf(obj, obj.Version).Meta.ResourceVersion}
		if err := read(obj, &b); err != nil {
			return nil, err
		}
		if selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && selector.Matches(labels.Set(m.Labels)) {
			all = append(all, b)
		}
	}
	return all, nil
}

// allows refuses an eviction that there is no room for.
func (b *budget) allows() error {
	var err *apierrors.StatusError
	var why string
	switch {
	case b.Status.ObservedGeneration < b.Metadata.Generation:
		err = apierrors.NewTooManyRequests(violates, 10)
		why = "is still being processed by the server."
	case b.Status.DisruptionsAllowed < 0:
		resource := schema.GroupResource{Group: "policy", Resource: "poddisruptionbudget"}
		err = apierrors.NewForbidden(resource, b.key.Name, errors.New("pdb disruptions allowed is negative"))
		why = "does not allow evicting pods currently: pdb disruptions allowed is negative"
	case b.Status.DisruptionsAllowed == 0:
		err = apierrors.NewTooManyRequests(violates, 0)
		if why = "does not allow evicting pods currently"; b.Status.CurrentHealthy <= b.Status.DesiredHealthy {
			why = fmt.Sprintf("needs %d healthy pods and has %d currently", b.Status.DesiredHealthy, b.Status.CurrentHealthy)
		}
	default:
		return nil
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: "DisruptionBudget", Message: fmt.Sprintf("The disruption budget %s %s", b.key.Name, why),
	})
	return err
}

const violates = "Cannot evict pod as it would violate the pod's disruption budget."
