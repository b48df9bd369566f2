package definitions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/definitions"
	"github.com/go-lw/lw/lwtest"
)

// A world is a server of definitions, with clients.
type world struct {
	*testing.T
	server *lwtest.Server
	crds   apiextensions.Interface
	open   dynamic.Interface
}

func begin(t *testing.T, opts definitions.Options) *world {
	t.Helper()
	resources, err := definitions.Resources(opts)
	if err != nil {
		t.Fatal(err)
	}
	s := lwtest.NewServer(t, resources...)
	config := &rest.Config{Host: s.URL(), Transport: s.Client().Transport, QPS: -1}
	w := &world{T: t, server: s}
	if w.crds, err = apiextensions.NewForConfig(config); err == nil {
		w.open, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// define creates or replaces a definition that is given as YAML.
func (w *world) define(text string) (*apiextensionsv1.CustomResourceDefinition, error) {
	w.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), def); err != nil {
		w.Fatal(err)
	}
	api := w.crds.ApiextensionsV1().CustomResourceDefinitions()
	old, err := api.Get(w.Context(), def.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Create(w.Context(), def, metav1.CreateOptions{})
	} else if err != nil {
		return nil, err
	}
	def.ResourceVersion = old.ResourceVersion
	return api.Update(w.Context(), def, metav1.UpdateOptions{})
}

func (w *world) mustDefine(text string) {
	w.Helper()
	if _, err := w.define(text); err != nil {
		w.Fatal(err)
	}
}

// crews are the objects of the definition, in a version.
func (w *world) crews(version string) dynamic.ResourceInterface {
	return w.open.Resource(schema.GroupVersionResource{Group: "example.com", Version: version,
		Resource: "crews"}).Namespace("default")
}

func crew(version, name, content string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	if err := u.UnmarshalJSON([]byte(`{"apiVersion":"example.com/` + version + `","kind":"Crew","metadata":{"name":"` + name + `"}` + content + `}`)); err != nil {
		panic(err)
	}
	return u
}

// said is what an answer says: the error, or a part of the object as JSON.
func said(u *unstructured.Unstructured, err error, part ...string) string {
	if err != nil {
		return fmt.Sprintf("%d %v", apierrors.APIStatus(err.(apierrors.APIStatus)).Status().Code, err)
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, part...)
	data, _ := json.Marshal(value)
	return string(data)
}

const head = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crews.example.com}
spec:
  group: example.com
  names: {plural: crews, singular: crew, kind: Crew, shortNames: [cr], categories: [all]}
  scope: Namespaced
`

const spec = `
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "self.size < 10", message: "a crew has less than ten"}]
            properties:
              size: {type: integer, default: 3, minimum: 0}
              name: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: "the name stays"}]}
              tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
          status: {type: object, properties: {size: {type: integer, maximum: 9}}}
`

// v2 is any JSON.
const v2 = `
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object,
	x-kubernetes-preserve-unknown-fields: true}}}
`

var age = regexp.MustCompile(`"[0-9]+s"`)

// table is the columns and the cells that kubectl shows of all objects.
func (w *world) table(version string) string {
	w.Helper()
	r, err := http.NewRequest(http.MethodGet, w.server.URL()+"/apis/example.com/"+version+"/crews", nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := w.server.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	var t metav1.Table
	if err := json.NewDecoder(resp.Body).Decode(&t); err != nil {
		w.Fatal(err)
	}
	var names []string
	var cells [][]any
	for _, c := range t.ColumnDefinitions {
		names = append(names, c.Name)
	}
	for _, r := range t.Rows {
		cells = append(cells, r.Cells)
	}
	data, _ := json.Marshal(cells)
	return fmt.Sprint(names, " ", age.ReplaceAllString(string(data), `"0s"`))
}

const one = head + `  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    selectableFields: [{jsonPath: .spec.name}]
    schema:
      openAPIV3Schema:` + spec

// A new object has no status of a webhook where the status is a subresource.
func TestStatusOfAWebhook(t *testing.T) {
	w := begin(t, definitions.Options{Admit: func(r lwtest.Resource) lwtest.Resource {
		fill := r.Default
		r.Default = func(ctx context.Context, a lwtest.Admission) error {
			if err := fill(ctx, a); err != nil {
				return err
			}
			a.Object.(*unstructured.Unstructured).Object["status"] = map[string]any{"size": int64(20)}
			return fill(ctx, a) // as package admission does
		}
		return r
	}})
	w.mustDefine(one + v2)
	for version, want := range map[string]string{"v1": "null", "v2": `{"size":20}`} {
		u, err := w.crews(version).Create(t.Context(), crew(version, version, ""), metav1.CreateOptions{})
		if got := said(u, err, "status"); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}

// An object with a wrong value that breaks no rule is not admitted by what comes after the rules.
func TestWrongIsNotAdmitted(t *testing.T) {
	admitted := 0
	w := begin(t, definitions.Options{Admit: func(r lwtest.Resource) lwtest.Resource {
		check := r.Validate
		r.Validate = func(ctx context.Context, a lwtest.Admission) error {
			err := check(ctx, a)
			if err == nil {
				admitted++
			}
			return err
		}
		return r
	}})
	w.mustDefine(one + v2)
	_, err := w.crews("v1").Create(t.Context(), crew("v1", "a", `,"spec":{"tags":["x","x"]}`), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || admitted != 0 {
		t.Errorf("%d admissions, %v", admitted, err)
	}
}

// Objects have the defaults of their definition, without what that does not have, and obey it.
func TestObjects(t *testing.T) {
	w := begin(t, definitions.Options{})
	w.mustDefine(one + v2)
	crews, ctx := w.crews("v1"), t.Context()
	create := func(name, content string) string {
		u, err := crews.Create(ctx, crew("v1", name, content), metav1.CreateOptions{})
		return said(u, err, "spec")
	}
	patch := func(content string, part string, sub ...string) string {
		u, err := crews.Patch(ctx, "a", types.MergePatchType, []byte(content), metav1.PatchOptions{}, sub...)
		return said(u, err, part)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"a rule", create("a", `,"spec":{"size":10}`), "422 Crew.example.com \"a\" is invalid: spec: Invalid value: a crew has less than ten"},
		{"a value, which is the scale's as well", create("a", `,"spec":{"size":-1}`),
			`422 Crew.example.com "a" is invalid: [spec.size: Invalid value: -1: spec.size in body should be greater than or ` +
				`equal to 0, .spec.size: Invalid value: "-1": should be a non-negative integer`},
		{"a value and a rule", create("a", `,"spec":{"size":10,"tags":["x","x"]}`),
			`422 Crew.example.com "a" is invalid: [spec.tags[1]: Duplicate value: "x", spec: Invalid value: a crew has less than`},
		{"a type", create("a", `,"spec":{"size":"x"}`),
			`422 Crew.example.com "a" is invalid: [spec.size: Invalid value: "string": spec.size in body must be of type ` +
				`integer: "string", .spec.size: Invalid value: "\"x\"": should be a non-negative integer that is less than or ` +
				`equal to 2147483647, <nil>: Invalid value: null: some validation rules were not checked`},
		{"a set", create("a", `,"spec":{"tags":["x","x"]}`), "422 Crew.example.com \"a\" is invalid: spec.tags[1]: Duplicate value: \"x\""},
		{"defaults and pruning", create("a", `,"spec":{"name":"a","other":1}`), `{"name":"a","size":3}`},
		{"a rule of transitions", patch(`{"spec":{"name":"b"}}`, "spec"),
			"422 Crew.example.com \"a\" is invalid: spec.name: Invalid value: \"b\": the name stays"},
		{"a default again", patch(`{"spec":{"size":null}}`, "spec"), `{"name":"a","size":3}`},
		{"the status", patch(`{"spec":{"size":4},"status":{"size":5}}`, "status", "status"), `{"size":5}`},
		{"a value of the status", patch(`{"status":{"size":10}}`, "status", "status"),
			"422 Crew.example.com \"a\" is invalid: status.size: Invalid value: 10"},
		{"the scale", patch(`{"spec":{"replicas":7}}`, "spec", "scale"), `{"replicas":7}`},
		{"a rule by the scale", patch(`{"spec":{"replicas":11}}`, "spec", "scale"),
			"422 Crew.example.com \"a\" is invalid: spec: Invalid value: a crew has less than ten"},
		{"another", create("b", `,"spec":{"name":"b"}`), `{"name":"b","size":3}`},
	} {
		if !strings.HasPrefix(strings.ReplaceAll(tt.got, `Invalid value: "object": `, "Invalid value: "), tt.want) {
			t.Errorf("%s:\n%s\nwant %s", tt.name, tt.got, tt.want)
		}
	}
	list, err := crews.List(ctx, metav1.ListOptions{FieldSelector: "spec.name=b"})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "b" {
		t.Errorf("by a field: %v %v", list, err)
	}

	for version, want := range map[string]string{
		"v1": `[Name Size Age] [["a",7,"0s"],["b",3,"0s"]]`, "v2": `[Name Age] [["a","0s"],["b","0s"]]`,
	} {
		if got := w.table(version); got != want {
			t.Errorf("the table of %s: %s\nwant %s", version, got, want)
		}
	}

	// Ratcheting: what was right before may stay as it is.
	w.mustDefine(strings.Replace(one+v2, "self.size < 10", "self.size < 5", 1))
	if got := patch(`{"metadata":{"labels":{"x":"y"}}}`, "spec"); got != `{"name":"a","size":7}` {
		t.Error("ratcheting:", got)
	}
	if got := patch(`{"spec":{"tags":["x"]}}`, "spec"); !strings.Contains(got, "less than ten") {
		t.Error("no ratcheting:", got)
	}

	// An object that is older than a default has it when it is read.
	w.mustDefine(strings.Replace(one+v2, "tags: {", "more: {type: string, default: x}\n              tags: {", 1))
	u, err := crews.Get(ctx, "a", metav1.GetOptions{})
	if got := said(u, err, "spec"); got != `{"more":"x","name":"a","size":7}` {
		t.Error("a later default:", got)
	}
	if list, err = crews.List(ctx, metav1.ListOptions{}); err != nil || said(&list.Items[1], nil, "spec",
		"more") != `"x"` {
		t.Error("a later default in a list:", err, list)
	}
}

// Bad definitions are refused, by kube-apiserver's messages, and good ones have its status.
func TestDefinitions(t *testing.T) {
	w := begin(t, definitions.Options{})
	for name, tt := range map[string]struct{ old, new, want string }{
		"its name": {"name: crews.example.com", "name: crew.example.com",
			`metadata.name: Invalid value: "crew.example.com": must be spec.names.plural+"."+spec.group`},
		"not structural": {"type: integer, default: 3", "default: 3",
			"spec.validation.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields"},
		"a bad rule":    {"self.size < 10", "self.count < 10", "undefined field 'count'"},
		"a bad default": {"default: 3", "default: x", `spec.validation.openAPIV3Schema.properties[spec].properties[size].default: Invalid value: "string":  in body must be of type integer: "string"`},
		"a dear rule": {"self.size < 10", "self.tags.all(t, self.tags.all(u, self.tags.all(v, t == u || u == v)))",
			"exceeds budget"},
	} {
		if _, err := w.define(strings.Replace(one, tt.old, tt.new, 1)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", name, err, tt.want)
		}
	}
	def, err := w.define(one)
	if err != nil {
		t.Fatal(err)
	}
	if def.Spec.Names.ListKind != "CrewList" || def.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("the defaults: %+v", def.Spec)
	}
	def, err = w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), def.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(def.Status.StoredVersions, def.Status.AcceptedNames, def.Generation)
	for _, c := range def.Status.Conditions {
		got += fmt.Sprint(" ", c.Type, c.Status, c.Reason)
	}
	if diff := cmp.Diff("[v1] {crews crew [cr] Crew CrewList [all]} 1 NamesAcceptedTrueNoConflicts EstablishedTrueInitialNamesAccepted", got); diff != "" {
		t.Error(diff)
	}
	// An update that takes away what is stored is refused.
	if _, err := w.define(strings.Replace(one, "- name: v1", "- name: v2",
		1)); err == nil || !strings.Contains(err.Error(), "status.storedVersions[0]") {
		t.Error("a version that is stored is gone:", err)
	}
	// Names that another definition has are not accepted.
	other := strings.NewReplacer("crews", "crewes", "shortNames: [cr], ", "").Replace(one)
	w.mustDefine(other)
	def, err = w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), "crewes.example.com",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got = ""
	for _, c := range def.Status.Conditions {
		got += fmt.Sprintln(c.Type, c.Status, c.Reason, c.Message)
	}
	if diff := cmp.Diff("NamesAccepted False ListKindConflict \"CrewList\" is already in use\nEstablished False NotAccepted not all names are accepted\n", got); diff != "" {
		t.Error(diff)
	}
	if err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "crews.example.com",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if def, err = w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(context.Background(), "crewes.example.com",
		metav1.GetOptions{}); err != nil || def.Status.AcceptedNames.Kind != "Crew" {
		t.Error("names that are free again:", err, def)
	}
}
