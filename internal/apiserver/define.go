package apiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/registry"
)

// This file has the controllers of CustomResourceDefinitions, as kube-apiserver has them: one that
// accepts their names, one that establishes them, one that deletes their objects, and one that makes
// an APIService for each of their versions, if the server has APIServices. They run in the goroutine
// of a write, before it is answered.

// cleanup is the finalizer of a definition whose objects are not deleted yet.
const cleanup = "customresourcecleanup.apiextensions.k8s.io"

// A definition is a CustomResourceDefinition, as the server reads it.
type definition struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   metav1.ObjectMeta `json:"metadata"`
	Spec       definitionSpec    `json:"spec"`
	Status     struct {
		AcceptedNames definitionNames    `json:"acceptedNames"`
		Conditions    []metav1.Condition `json:"conditions"`
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

type definitionNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Categories []string `json:"categories,omitempty"`
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
	generation  int64
	collections []*Collection // one for each version, the one that is stored first
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

	served map[string]*defined // by the names of the definitions; only the goroutine that works uses it
}

func (d *definitions) begin(s *Server, crds *Collection) {
	d.server, d.crds = s, crds
	d.served = map[string]*defined{}
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
	page, err := d.crds.history.List("", metav1.ListOptions{})
	if err != nil {
		panic(err) // cannot happen: there is no option that could be wrong
	}
	var all []*definition
	for _, obj := range page.Items {
		data, err := d.crds.Resource.encode(obj, obj.Version, fullJSON)
		def := &definition{}
		if err != nil || json.Unmarshal(data, def) != nil {
			continue // it is no definition, and nothing is served of it
		}
		all = append(all, def)
	}
	d.ending.Store(slices.ContainsFunc(all, func(def *definition) bool { return def.Metadata.DeletionTimestamp != nil }))
	versions := map[schema.GroupVersion]bool{}
	for _, def := range all {
		if def.is("NamesAccepted") || def.is("Established") {
			d.serve(def) // before it is established, as kube-apiserver
		}
		if d.settle(def, all) {
			return // the write has it come again
		}
		if def.is("Established") {
			for _, v := range def.Spec.Versions {
				if v.Served {
					versions[schema.GroupVersion{Group: def.Spec.Group, Version: v.Name}] = true
				}
			}
		}
	}
	for name, of := range d.served {
		defines := func(def *definition) bool { return def.Metadata.Name == name && def.Metadata.UID == of.uid }
		if !slices.ContainsFunc(all, defines) {
			d.withdraw(name)
		}
	}
	d.announce(versions)
}

// settle makes the next write of a controller to def. It reports whether there was one.
func (d *definitions) settle(def *definition, all []*definition) bool {
	switch conflict := def.conflict(all); {
	case def.Metadata.DeletionTimestamp != nil:
		if !def.is("Terminating") && def.is("Established") {
			return d.set(def, "Terminating", metav1.ConditionTrue, "InstanceDeletionPending",
				"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
		}
		if !d.empty(def) || !slices.Contains(def.Metadata.Finalizers, cleanup) {
			return false
		}
		d.withdraw(def.Metadata.Name)
		return d.change(def, func(u *unstructured.Unstructured) {
			u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == cleanup }))
		})
	case !slices.Contains(def.Metadata.Finalizers, cleanup):
		return d.change(def, func(u *unstructured.Unstructured) {
			u.SetFinalizers(append(u.GetFinalizers(), cleanup))
		})
	case conflict != "":
		return d.set(def, "NamesAccepted", metav1.ConditionFalse, conflict,
			fmt.Sprintf("%q is already in use", def.Spec.Names.Kind))
	case !def.is("NamesAccepted"):
		return d.set(def, "NamesAccepted", metav1.ConditionTrue, "NoConflicts", "no conflicts found")
	case !def.is("Established"):
		return d.set(def, "Established", metav1.ConditionTrue, "InitialNamesAccepted",
			"the initial names have been accepted")
	}
	return false
}

// conflict returns the reason why the names of def cannot be accepted, or "".
func (d *definition) conflict(all []*definition) string {
	for _, other := range all {
		if other == d || other.Spec.Group != d.Spec.Group || !other.is("NamesAccepted") || d.is("NamesAccepted") {
			continue
		}
		if other.Status.AcceptedNames.Kind == d.Spec.Names.Kind {
			return "KindConflict"
		}
	}
	return ""
}

// set sets a condition. It reports whether that was a change.
func (d *definitions) set(def *definition, typ string, status metav1.ConditionStatus, reason, message string) bool {
	i := slices.IndexFunc(def.Status.Conditions, func(c metav1.Condition) bool { return c.Type == typ })
	if i >= 0 && def.Status.Conditions[i].Status == status && def.Status.Conditions[i].Reason == reason {
		return false
	}
	return d.change(def, func(u *unstructured.Unstructured) {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		conditions = slices.DeleteFunc(conditions, func(c any) bool { return c.(map[string]any)["type"] == typ })
		conditions = append(conditions, map[string]any{
			"type": typ, "status": string(status), "reason": reason, "message": message,
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		})
		_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions")
		if typ == "NamesAccepted" && status == metav1.ConditionTrue {
			names, _, _ := unstructured.NestedMap(u.Object, "spec", "names")
			_ = unstructured.SetNestedMap(u.Object, names, "status", "acceptedNames")
		}
	})
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
func (d *definitions) empty(def *definition) bool {
	of := d.served[def.Metadata.Name]
	if of == nil {
		return true
	}
	c := of.collections[0]
	items := func() []*stored {
		page, err := c.history.List("", metav1.ListOptions{})
		if err != nil {
			panic(err) // as in work
		}
		return page.Items
	}
	for _, obj := range items() {
		if objectOf(obj, obj.Version).Meta.DeletionTimestamp == nil {
			_, _ = c.Delete(obj.Key) // an error says that somebody else has deleted it
		}
	}
	return len(items()) == 0
}

// serve serves the versions of def.
func (d *definitions) serve(def *definition) {
	of := d.served[def.Metadata.Name]
	if of != nil && of.uid == def.Metadata.UID && of.generation == def.Metadata.Generation {
		return
	}
	if of != nil {
		d.withdraw(def.Metadata.Name) // any change of the spec ends the watches
	}
	stored := slices.IndexFunc(def.Spec.Versions, func(v definitionVersion) bool { return v.Storage })
	if stored < 0 {
		return // kube-apiserver takes no such definition
	}
	base := d.collection(def, &def.Spec.Versions[stored])
	if of != nil && of.uid == def.Metadata.UID {
		base.history = of.collections[0].history
	} else {
		base.history = history.NewCollection(d.server.Line, history.Options[*content]{
			Resource: base.Resource.groupResource(), Fields: base.Resource.Fields, Window: d.server.window,
		})
	}
	of = &defined{uid: def.Metadata.UID, generation: def.Metadata.Generation, collections: []*Collection{base}}
	for _, v := range def.Spec.Versions {
		if v.Storage {
			continue
		}
		c := base.inVersion(v.Name, new(atomic.Bool))
		c.served.Store(v.Served)
		of.collections = append(of.collections, c)
	}
	d.served[def.Metadata.Name] = of
	d.replace(nil, of.collections)
}

// collection returns the collection of the version that is stored.
func (d *definitions) collection(def *definition, v *definitionVersion) *Collection {
	names := def.Status.AcceptedNames
	res := Resource{
		Group: def.Spec.Group, Version: v.Name, Resource: names.Plural, Kind: names.Kind,
		ShortNames: append([]string{}, names.ShortNames...),
		Cluster:    def.Spec.Scope == "Cluster", Custom: true, Status: v.Subresources.Status != nil,
		Managed: true, Versioned: true,
	}
	if s := v.Subresources.Scale; s != nil {
		res.Scale = &registry.Scale{Replicas: s.Replicas, StatusReplicas: s.StatusReplicas, Selector: s.Selector}
	}
	for _, f := range v.Fields {
		res.Fields = append(res.Fields, strings.TrimPrefix(f.JSONPath, "."))
	}
	kind := res.kind()
	if schema := v.Schema.OpenAPI; schema != nil && kind.SetSchema(schema) == nil {
		res.Schema = schema
	} else {
		kind = res.kind() // any JSON
	}
	c := &Collection{Resource: res, kind: kind, served: new(atomic.Bool), wrote: d.wroteObject}
	c.served.Store(v.Served)
	return c
}

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
	of.collections[0].history.Finish()
}

// replace has the server serve other collections in the place of some.
func (d *definitions) replace(gone, come []*Collection) {
	s := d.server
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.collections), func(c *Collection) bool { return slices.Contains(gone, c) })
	s.collections = append(all, come...)
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
