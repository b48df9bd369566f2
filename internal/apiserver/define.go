package apiserver

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/registry"
)

// This file has the controllers of CustomResourceDefinitions, as kube-apiserver has them: one that
// accepts their names, one that establishes them, one that deletes their objects, and one that
// makes an APIService for each of their versions, if the server has APIServices. They run in the
// goroutine of a write, before it is answered.

// A definition is a CustomResourceDefinition, as the server reads it.
type definition struct {
	version uint64 // of the object
	data    []byte // its JSON

	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       definitionSpec    `json:"spec"`
	Status     struct {
		AcceptedNames  definitionNames    `json:"acceptedNames"`
		Conditions     []metav1.Condition `json:"conditions"`
		StoredVersions []string           `json:"storedVersions"`
	} `json:"status"`
}

type definitionSpec struct {
	Group    string              `json:"group"`
	Scope    string              `json:"scope"`
	Names    definitionNames     `json:"names"`
	Versions []definitionVersion `json:"versions"`
}

type definitionVersion struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
	Schema  struct {
		OpenAPI json.RawMessage `json:"openAPIV3Schema"`
	} `json:"schema"`
	Subresources struct {
		Status *struct{} `json:"status"`
		Scale  *struct {
			Replicas       string `json:"specReplicasPath"`
			StatusReplicas string `json:"statusReplicasPath"`
			Selector       string `json:"labelSelectorPath"`
		} `json:"scale"`
	} `json:"subresources"`
	Fields []struct {
		JSONPath string `json:"jsonPath"`
	} `json:"selectableFields"`
}

// stored returns the version in which objects are stored, or nil: kube-apiserver takes no such
// definition.
func (d *definition) stored() *definitionVersion {
	for i := range d.Spec.Versions {
		if v := &d.Spec.Versions[i]; v.Storage {
			return v
		}
	}
	return nil
}

// unnoted returns the version in which objects are stored, if the status does not say so yet, or
// "".
func (d *definition) unnoted() string {
	if v := d.stored(); v != nil && !slices.Contains(d.Status.StoredVersions, v.Name) {
		return v.Name
	}
	return ""
}

// changes returns how often the spec has changed. The mark for a deletion raises the generation, too,
// and yet all stays as it is until the objects are gone.
func (d *definition) changes() int64 {
	if d.Metadata.DeletionTimestamp != nil {
		return d.Metadata.Generation - 1
	}
	return d.Metadata.Generation
}

// is returns the status of a condition.
func (d *definition) is(typ string) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == typ && c.Status == metav1.ConditionTrue
	})
}

// defined is what a server serves of a definition.
type defined struct {
	uid         types.UID
	changes     int64 // definition.changes
	names       definitionNames
	closed      *atomic.Bool  // no objects come any more
	base        *Collection   // in the version that is stored
	collections []*Collection // one for each version
}

// definitions are those of a server. Without a Resource that Defines there are none.
type definitions struct {
	server *Server
	crds   *Collection

	mu    sync.Mutex
	busy  bool // a goroutine works; guarded by mu, as dirty
	dirty bool // there may be more to do
	// ending is set while a definition waits for the end of its objects.
	ending atomic.Bool

	// By the names of the definitions; only the goroutine that works uses them.
	served map[string]*defined
	read   map[string]*definition
	// changed are the groups in which the controllers may have something to do. Each write has them
	// look, so what a look costs must not grow with the definitions of all other groups.
	changed map[string]bool
}

func (d *definitions) begin(s *Server, crds *Collection) {
	d.server, d.crds = s, crds
	d.served, d.changed = map[string]*defined{}, map[string]bool{}
	crds.wrote = d.wrote
}

// wrote works until there is nothing to do. A goroutine that finds another one at work leaves it to
// that.
func (d *definitions) wrote() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirty = true; d.busy {
		return
	}
	for d.busy = true; d.dirty; {
		d.dirty = false
		d.mu.Unlock()
		d.work()
		d.mu.Lock()
	}
	d.busy = false
}

// wroteObject is wrote for the writes of objects, of which few matter.
func (d *definitions) wroteObject() {
	if d.ending.Load() {
		d.wrote()
	}
}

// work brings the server in step with all definitions.
func (d *definitions) work() {
	all := d.readAll()
	ending := false
	for _, def := range all {
		if def.Metadata.DeletionTimestamp != nil {
			ending, d.changed[def.Spec.Group] = true, true
		}
	}
	d.ending.Store(ending)
	names := namesOf(all, d.changed)
	versions := map[schema.GroupVersion]bool{}
	for _, def := range all {
		if d.changed[def.Spec.Group] {
			if def.is(namesAccepted) || def.is(established) {
				d.serve(def) // before it is established, as kube-apiserver
			}
			if d.settle(def, names) {
				return // the write has it come again
			}
		}
		if def.is(established) {
			for _, v := range def.Spec.Versions {
				if v.Served {
					versions[schema.GroupVersion{Group: def.Spec.Group, Version: v.Name}] = true
				}
			}
		}
	}
	for name, of := range d.served {
		if def := d.read[name]; def == nil || def.Metadata.UID != of.uid {
			d.withdraw(name)
		}
	}
	clear(d.changed)
	d.announce(versions)
}

// readAll returns the definitions that there are, and notes in which groups they have changed.
func (d *definitions) readAll() (all []*definition) {
	page, err := d.crds.history.List("", metav1.ListOptions{})
	if err != nil {
		panic(err) // cannot happen: there is no option that could be wrong
	}
	read := map[string]*definition{} // the schemas of many definitions take long to read
	for _, obj := range page.Items {
		def := d.read[obj.Key.Name]
		if def == nil || def.version != obj.Version {
			data, err := d.crds.Resource.encode(obj, obj.Version, fullJSON)
			def = &definition{version: obj.Version, data: data}
			if err != nil || json.Unmarshal(data, def) != nil {
				continue // it is no definition, and nothing is served of it
			}
			d.changed[def.Spec.Group] = true
		}
		read[obj.Key.Name] = def
		all = append(all, def)
	}
	for name, def := range d.read {
		if read[name] == nil {
			d.changed[def.Spec.Group] = true
		}
	}
	d.read = read
	return all
}

// settle makes the next write of a controller to def. It reports whether there was one.
func (d *definitions) settle(def *definition, names acceptedNames) bool {
	switch {
	case def.Metadata.DeletionTimestamp == nil:
		if d.accept(def, names) {
			return true
		}
		if !def.is(namesAccepted) || def.is(established) {
			return false
		}
		return d.change(def, func(u *unstructured.Unstructured) {
			setCondition(u, established, metav1.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted")
		})
	case !def.is("Terminating"):
		return d.change(def, func(u *unstructured.Unstructured) {
			setCondition(u, "Terminating", metav1.ConditionTrue, "InstanceDeletionPending",
				"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
		})
	case !d.empty(def) || !slices.Contains(def.Metadata.Finalizers, cleanup):
		return false
	}
	d.withdraw(def.Metadata.Name)
	return d.change(def, func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == cleanup }))
	})
}

const namesAccepted, established = "NamesAccepted", "Established"

// accept gives a definition the names that no other one has, with what else is written before it is
// established. It reports whether it has written.
func (d *definitions) accept(def *definition, all acceptedNames) bool {
	names, reason, message := def.free(all)
	status := metav1.ConditionTrue
	if reason != "NoConflicts" {
		status = metav1.ConditionFalse
	}
	same := slices.ContainsFunc(def.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == namesAccepted && c.Status == status && c.Reason == reason && c.Message == message
	})
	if same && def.unnoted() == "" && names.equal(&def.Status.AcceptedNames) {
		return false
	}
	return d.acceptAs(def, names, status, reason, message)
}

// acceptAs writes what accept has found.
func (d *definitions) acceptAs(def *definition, names definitionNames, status metav1.ConditionStatus, reason, message string) bool {
	return d.change(def, func(u *unstructured.Unstructured) {
		accepted, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&names) // it has strings alone
		_ = unstructured.SetNestedMap(u.Object, accepted, "status", "acceptedNames")
		if stored := def.unnoted(); stored != "" {
			_ = unstructured.SetNestedStringSlice(u.Object, append(def.Status.StoredVersions, stored), "status", "storedVersions")
		}
		setCondition(u, namesAccepted, status, reason, message)
		if def.is(established) {
			return
		}
		if reason, message = "NotAccepted", "not all names are accepted"; status == metav1.ConditionTrue {
			reason, message = "Installing", "the initial names have been accepted"
		}
		setCondition(u, established, metav1.ConditionFalse, reason, message)
	})
}

// setCondition sets a condition of a definition. Its time is that of the last change of the status.
func setCondition(u *unstructured.Unstructured, typ string, status metav1.ConditionStatus, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	i := slices.IndexFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == typ })
	if i < 0 {
		i, conditions = len(conditions), append(conditions, map[string]any{"type": typ})
	}
	c := conditions[i].(map[string]any)
	if c["status"] != string(status) {
		c["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	}
	c["status"], c["reason"], c["message"] = string(status), reason, message
	_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions")
}

// change writes def. It reports whether it has: somebody else may have written meanwhile, which has
// the controllers look again.
func (d *definitions) change(def *definition, f func(*unstructured.Unstructured)) bool {
	obj, err := d.crds.Get(types.NamespacedName{Name: def.Metadata.Name})
	if err != nil {
		return false
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(obj.JSON); err != nil {
		return false
	}
	f(u)
	_, err = d.crds.Update(u)
	return err == nil
}

// empty deletes the objects of def, and reports whether all are gone: those with finalizers stay.
// As in a cluster nobody is asked whether that may be, so that no webhook that is gone holds it up.
func (d *definitions) empty(def *definition) bool {
	of := d.served[def.Metadata.Name]
	if of == nil {
		return true
	}
	of.closed.Store(true)
	h := of.base.history
	items := func() []*stored {
		page, err := h.List("", metav1.ListOptions{})
		if err != nil {
			panic(err) // as in work
		}
		return page.Items
	}
	for _, obj := range items() {
		// An error says that somebody else has written meanwhile, which has the controllers look again.
		switch as, o := (history.Preconditions{UID: obj.UID, Version: obj.Version}), &obj.Value.Object; {
		case len(o.Meta.Finalizers) == 0:
			_, _, _ = h.Delete(obj.Key, as)
		case o.Meta.DeletionTimestamp == nil:
			next := *obj
			next.Value = &content{Object: *o.Deleted(), kind: obj.Value.kind}
			_, _ = h.Update(next, as)
		}
	}
	return len(items()) == 0
}

// serve serves the versions of def.
func (d *definitions) serve(def *definition) {
	of := d.served[def.Metadata.Name]
	again := of != nil && of.uid == def.Metadata.UID
	if again && of.changes == def.changes() && of.names.equal(&def.Status.AcceptedNames) {
		return
	}
	storage := def.stored()
	if !again || storage == nil {
		d.withdraw(def.Metadata.Name)
	}
	if storage == nil {
		return
	}
	next := &defined{
		uid: def.Metadata.UID, changes: def.changes(), names: def.Status.AcceptedNames, closed: new(atomic.Bool),
	}
	res := d.resource(def, storage)
	var h *history.Collection[*content]
	if again {
		h = of.base.history
		h.SetFields(res.Fields)
	} else {
		h = d.server.newHistory(&res, fieldOf)
	}
	next.base = &Collection{history: h}
	for i := range def.Spec.Versions {
		v := &def.Spec.Versions[i]
		c := &Collection{history: h}
		if v == storage {
			c = next.base
		}
		c.Resource = res.as(v)
		c.kind, c.storage, c.served, c.closed = c.Resource.own, next.base, new(atomic.Bool), next.closed
		c.wrote, c.home = d.wroteObject, d.server.home
		c.served.Store(v.Served)
		next.collections = append(next.collections, c)
	}
	relate(&res, next.collections)
	d.served[def.Metadata.Name] = next
	if !again {
		d.replace(nil, next.collections)
		return
	}
	d.replace(of.collections, next.collections)
	h.Finish() // any change of the spec ends the watches
}

// resource returns what all versions of a definition have, which are stored as one of them.
func (d *definitions) resource(def *definition, storage *definitionVersion) Resource {
	names := def.Status.AcceptedNames
	res := Resource{
		Group: def.Spec.Group, Version: storage.Name, Resource: names.Plural, Kind: names.Kind, Singular: names.Singular,
		ShortNames: append([]string{}, names.ShortNames...), Categories: names.Categories,
		Cluster: def.Spec.Scope == "Cluster", Custom: true, Managed: true, Versioned: true,
	}
	for _, v := range def.Spec.Versions {
		if !v.Storage {
			res.Versions = append(res.Versions, v.Name)
		}
		if v.Subresources.Status != nil {
			res.Status = true
		}
		if v.Subresources.Scale != nil {
			res.Scale = &registry.Scale{}
		}
		for _, f := range v.Fields {
			if path := strings.TrimPrefix(f.JSONPath, "."); !slices.Contains(res.Fields, path) {
				res.Fields = append(res.Fields, path)
			}
		}
	}
	if define := d.crds.Resource.Define; define != nil {
		define(def.data, &res)
	}
	return res
}

// as returns the resource in a version of its definition.
func (r Resource) as(v *definitionVersion) Resource {
	r.Version, r.Status, r.Scale = v.Name, v.Subresources.Status != nil, nil
	if s := v.Subresources.Scale; s != nil {
		r.Scale = &registry.Scale{Replicas: s.Replicas, StatusReplicas: s.StatusReplicas, Selector: s.Selector}
	}
	if kind := r.kind(); v.Schema.OpenAPI != nil && kind.SetSchema(v.Schema.OpenAPI) == nil {
		r.Schema = v.Schema.OpenAPI
		return r
	}
	r.kind() // of any JSON
	return r
}

// fieldOf returns what a field selector finds in an object of a definition, as it is stored.
func fieldOf(obj *stored, path string) string { return obj.Value.Field(path) }

// withdraw ends to serve a definition, and its watches.
func (d *definitions) withdraw(name string) {
	of := d.served[name]
	if of == nil {
		return
	}
	delete(d.served, name)
	for _, c := range of.collections {
		c.served.Store(false)
	}
	d.replace(of.collections, nil)
	of.base.history.Finish()
	of.base.history.Leave()
}

// replace has the server serve other collections in the place of some.
func (d *definitions) replace(gone, come []*Collection) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	var all, defined []*Collection
	for _, c := range append(slices.Clone(s.collections), come...) {
		switch {
		case slices.Contains(gone, c):
		case c.closed != nil:
			defined = append(defined, c)
		default:
			all = append(all, c)
		}
	}
	// The versions of a group are in discovery as they come here, the preferred one first.
	slices.SortStableFunc(defined, func(a, b *Collection) int {
		return version.CompareKubeAwareVersionStrings(b.Resource.Version, a.Resource.Version)
	})
	s.collections = append(all, defined...)
}

// announce has an APIService for each of versions, and none for others that it had made.
func (d *definitions) announce(versions map[schema.GroupVersion]bool) {
	const apiServices, managed = "apiservices", "kube-aggregator.kubernetes.io/automanaged"
	var services *Collection
	for _, c := range d.server.all() {
		if c.Resource.Group == "apiregistration.k8s.io" && c.Resource.Resource == apiServices {
			services = c
		}
	}
	if services == nil {
		return
	}
	page, err := services.history.List("", metav1.ListOptions{})
	if err != nil {
		panic(err) // as in work
	}
	for _, obj := range page.Items {
		version, group, _ := strings.Cut(obj.Key.Name, ".")
		gv := schema.GroupVersion{Group: group, Version: version}
		if !versions[gv] && obj.Labels[managed] == "true" {
			_, _ = services.Delete(obj.Key) // an error says that somebody else has deleted it
		}
		delete(versions, gv)
	}
	for gv := range versions {
		// An error says that somebody else has made it.
		_, _ = services.Create(map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": gv.Version + "." + gv.Group, "labels": map[string]any{managed: "true"}},
			"spec": map[string]any{
				"group": gv.Group, "version": gv.Version, "groupPriorityMinimum": 1000, "versionPriority": 100,
			},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "Available", "status": "True", "reason": "Local", "message": "Local APIServices are always available",
			}}},
		})
	}
}
