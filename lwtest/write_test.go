package lwtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// sendWrite sends a write to a path within the namespace default, and returns the status, 0 if
// there is no answer, and the body.
func sendWrite(s *lwtest.Server, method, path, contentType, body string) (int, string) {
	if path[0] != '/' {
		path = "/apis/example.com/v1/namespaces/default/" + path
	}
	r, _ := http.NewRequest(method, s.URL()+path, strings.NewReader(body)) // no method or path here is wrong
	r.Header.Set("Content-Type", contentType)
	resp, err := s.Client().Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(data)
}

// A function of a fault sees who asks, and the metadata of what is written in protobuf too.
func TestWhoIsMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &metav1.PartialObjectMetadata{}})
		var got []string
		server.Inject(lwtest.Fault{Times: -1, Effect: lwtest.Choose(func(r lwtest.Request) lwtest.Effect {
			got = append(got, fmt.Sprintf("%s %s of %s by %s", r.Verb, r.Meta.Name+r.Meta.GenerateName, r.UserAgent, r.Username))
			return lwtest.Effect{}
		})})
		front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			server.ServeHTTP(w, r.WithContext(lwtest.WithUser(r.Context(), lwtest.User{Username: "eve"})))
		})
		send := func(h http.Handler, contentType string, body []byte) {
			r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", bytes.NewReader(body))
			r.Header.Set("Content-Type", contentType)
			r.Header.Set("User-Agent", "program")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			rig.Same(t, "the answer", 201, w.Code)
		}
		raw := rig.Must[[]byte](t)((&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-", Labels: map[string]string{"k": "v"}}}).Marshal())
		message := rig.Must[[]byte](t)((&runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, Raw: raw}).Marshal())
		send(server, "application/json", []byte(`{"metadata":{"name":"a"}}`))
		send(front, "application/vnd.kubernetes.protobuf", append([]byte("k8s\x00"), message...))
		rig.Same(t, "what was asked", []string{"create a of program by ", "create b- of program by eve"}, got)
		logged := server.Requests(lwtest.Create)
		rig.Same(t, "the log", []string{"program", "eve"}, []string{logged[0].UserAgent, logged[1].Username})
		for cm := range lwtest.Objects[*metav1.PartialObjectMetadata](server, "configmaps").All() {
			rig.Same(t, "labels of "+cm.Name, strings.HasPrefix(cm.Name, "b-"), cm.Labels["k"] == "v")
		}
	})
}

const (
	mergePatch = "application/merge-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

// The answer of a write can be refused before it, lost after it, wrong after it, or held back.
func TestAnswersOfWrites(t *testing.T) {
	for name, test := range map[string]struct {
		effect  lwtest.Effect
		code    int
		written bool
	}{
		"refused":       {lwtest.Fail(apierrors.NewTooManyRequests("busy", 1)), 429, false},
		"reset":         {lwtest.Reset(), 0, false},
		"lost":          {lwtest.Written(lwtest.Reset()), 0, true},
		"wrong":         {lwtest.Written(lwtest.Fail(apierrors.NewTimeoutError("late", 1))), 504, true},
		"late":          {lwtest.Written(lwtest.Delay(time.Hour)), 200, true},
		"as usual":      {lwtest.Written(lwtest.Effect{}), 200, true},
		"another reply": {lwtest.Written(lwtest.Reply(502, "text/html", "no")), 502, true},
	} {
		rig.Subtest(t, name, func(t *testing.T) {
			s, c := newJobs(t)
			rig.Must[*Job](t)(c.Create(newJob(key("a"), 1)))
			s.Inject(lwtest.Fault{Verb: lwtest.Patch, Effect: test.effect})
			if code, body := sendWrite(s, "PATCH", "jobs/a", mergePatch, `{"spec":{"size":2}}`); code != test.code {
				t.Errorf("the answer is %d %s, want %d", code, body, test.code)
			}
			if a, err := c.Get(key("a")); err != nil || (a.Spec.Size == 2) != test.written {
				t.Errorf("the object is %+v, %v; want it written: %t", a, err, test.written)
			}
			if got := s.Requests(lwtest.Patch); len(got) != 1 || got[0].Name != "a" {
				t.Errorf("the requests are %v", got)
			}
		})
	}
}

// An answer waits until the test lets it go, and the write is done before.
func TestAnswerOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newJobs(t)
		released, answered := make(chan struct{}), make(chan int, 1)
		s.Inject(lwtest.Fault{Verb: lwtest.Create, Effect: lwtest.Written(lwtest.Until(released))})
		go func() {
			code, _ := sendWrite(s, "POST", "jobs", "application/json", `{"metadata":{"name":"a"}}`)
			answered <- code
		}()
		time.Sleep(time.Hour)
		if _, err := c.Get(key("a")); err != nil || len(answered) != 0 {
			t.Errorf("the object: %v; answers: %d", err, len(answered))
		}
		close(released)
		rig.Same(t, "the answer", http.StatusCreated, <-answered)
	})
}

// A resource with a type has its protobuf, its pruning, and its lists with keys.
func TestTypeOfAResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		typed := jobs
		typed.Type = &metav1.PartialObjectMetadata{}
		s := lwtest.NewServer(t, typed)
		message := rig.Must[[]byte](t)((&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a",
			Finalizers: []string{"x.io/a"}}}).Marshal())
		body := "k8s\x00\n\x00\x12" + string(rune(len(message))) + string(message)
		if code, answer := sendWrite(s, "POST", "jobs", "application/vnd.kubernetes.protobuf",
			body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
		if code, answer := sendWrite(s, "PATCH", "jobs/a", "application/strategic-merge-patch+json",
			`{"metadata":{"finalizers":["x.io/b"]},"spec":{"size":1}}`); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		a := rig.Must[*Job](t)(lwtest.Objects[*Job](s, "jobs").Get(key("a")))
		rig.Same(t, "finalizers", []string{"x.io/b", "x.io/a"}, a.Finalizers)
		rig.Same(t, "the size", 0, a.Spec.Size)
	})
	rig.MustPanic(t, "notAStruct",
		func() { lwtest.StartServer(lwtest.Resource{Plural: "x", Kind: "X", Type: notAStruct(0)}) })
}

type notAStruct int

func (notAStruct) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (n notAStruct) DeepCopyObject() runtime.Object { return n }

// Objects that are copies of one are apart, and a write makes another one.
func TestShareDecoded(t *testing.T) {
	defer apiserver.ShareDecoded.Store(apiserver.ShareDecoded.Swap(true))
	server := lwtest.StartServer(lwtest.Resource{Plural: "notes", Kind: "Note"})
	defer server.Close()
	notes, key := lwtest.Objects[*unstructured.Unstructured](server, "notes"), lw.Key{Namespace: "default", Name: "a"}
	note := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "default",
		"name": "a"}, "text": "first"}}
	rig.Must[*unstructured.Unstructured](t)(notes.Create(note))
	for _, text := range []string{"second", "third"} {
		for range 3 {
			got, err := notes.Get(key)
			if err != nil || got.Object["text"] != note.Object["text"] {
				t.Fatalf("%v, %v, want %v", got, err, note.Object["text"])
			}
			got.Object["text"] = "changed"
		}
		note.Object["text"] = text
		rig.Must[*unstructured.Unstructured](t)(notes.Update(note))
	}
}

// The collector removes what is owned by nothing any more, and knows the three ways of deleting an
// owner. It acts step by step.
func TestCollect(t *testing.T) {
	parts := lwtest.Resource{Group: "example.com", Plural: "parts", Kind: "Part"}
	for _, test := range []struct {
		policy string
		block  bool
		want   []string
	}{
		{"Background", true, []string{"delete parts default/p", "delete parts default/q"}},
		{"Foreground", true, []string{"delete parts default/p", "delete parts default/q", "patch jobs default/a"}},
		{"Foreground", false, []string{"patch jobs default/a", "delete parts default/p", "delete parts default/q"}},
		{"Orphan", true, []string{"patch parts default/p", "patch parts default/q", "patch jobs default/a"}},
	} {
		t.Run(test.policy, func(t *testing.T) {
			s := lwtest.NewServer(t, jobs, parts)
			owner := rig.Must[*Job](t)(lwtest.Objects[*Job](s, "jobs").Create(newJob(key("a"), 1)))
			c := lwtest.Objects[*Job](s, "parts")
			for i, refs := range [][]metav1.OwnerReference{
				{{APIVersion: "example.com/v1", Kind: "Job", Name: "a", UID: owner.UID, BlockOwnerDeletion: &test.block}},
				{{APIVersion: "example.com/v1", Kind: "Job", Name: "a", UID: owner.UID, BlockOwnerDeletion: &test.block}},
				{{APIVersion: "other.io/v1", Kind: "Job", Name: "a", UID: "elsewhere"}},
				nil,
			} {
				part := newJob(key(string("pqrs"[i])), 1)
				part.OwnerReferences = refs
				rig.Must[*Job](t)(c.Create(part))
			}
			rig.Same(t, "the step with its owner there", "", s.Collect())
			if code, body := sendWrite(s, "DELETE", "jobs/a", "application/json", fmt.Sprintf(`{"propagationPolicy":%q}`,
				test.policy)); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
			var got []string
			for step := s.Collect(); step != ""; step = s.Collect() {
				got = append(got, step)
			}
			rig.Same(t, "", test.want, got)
			var left []string
			for o := range c.All() {
				left = append(left, fmt.Sprint(o.Name, len(o.OwnerReferences)))
			}
			want := []string{"r1", "s0"}
			if test.policy == "Orphan" {
				want = []string{"p0", "q0", "r1", "s0"}
			}
			rig.Same(t, "left", want, left)
			if _, err := lwtest.Objects[*Job](s, "jobs").Get(key("a")); !apierrors.IsNotFound(err) {
				t.Errorf("the owner: %v", err)
			}
		})
	}
}

// What two managers apply is kept apart, and a controller's informer sees what is left.
func TestApply(t *testing.T) {
	s := lwtest.NewServer(t, jobs)
	for _, c := range []struct {
		query, body string
		code        int
	}{
		{"fieldManager=one", `{apiVersion: example.com/v1, kind: Job, metadata: {name: a}, spec: {size: 1}}`, 201},
		{"fieldManager=two", `{apiVersion: example.com/v1, kind: Job, metadata: {name: a}, spec: {size: 2}}`, 409},
		{"fieldManager=two&force=true", `{apiVersion: example.com/v1, kind: Job, metadata: {name: a}, spec: {size: 2}}`, 200},
	} {
		if code, body := sendWrite(s, "PATCH", "jobs/a?"+c.query, applyPatch, c.body); code != c.code {
			t.Errorf("%s: %d %s, want %d", c.query, code, body, c.code)
		}
	}
	a := rig.Must[*Job](t)(lwtest.Objects[*Job](s, "jobs").Get(key("a")))
	if a.Spec.Size != 2 || len(a.ManagedFields) != 2 {
		t.Errorf("%+v", a)
	}
}

// A Schema checks the values of each write, of a client as of the test.
func TestSchemaOfAResource(t *testing.T) {
	server := lwtest.NewServer(t, lwtest.Resource{Group: "x.io", Plural: "shops", Kind: "Shop", Schema: []byte(`
type: object
properties: {spec: {type: object, required: [size], properties: {size: {type: integer, minimum: 1}}}}`)})
	shops := lwtest.Objects[*unstructured.Unstructured](server, "shops")
	for spec, want := range map[string]int{`{"size":1}`: 201, `{"size":0}`: 422, `{}`: 422, `{"size":"1"}`: 422} {
		body := `{"apiVersion":"x.io/v1","kind":"Shop","metadata":{"generateName":"a"},"spec":` + spec + `}`
		resp, err := server.Client().Post(shops.URL("ns"), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s", spec, resp.Status)
		}
		shop := &unstructured.Unstructured{}
		if err := shop.UnmarshalJSON([]byte(body)); err != nil {
			t.Fatal(err)
		}
		shop.SetNamespace("ns")
		if _, err := shops.Create(shop); (err == nil) != (want == 201) || err != nil && !apierrors.IsInvalid(err) {
			t.Errorf("%s by the test: %v", spec, err)
		}
	}
}

// A kind is read, watched and written in each of its versions, and stored in one.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := jobs
		r.Scale, r.Versions = true, []string{"v1beta1"}
		r.Convert = func(obj *unstructured.Unstructured, version string) error {
			spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
			from := map[string]string{"v1": "big", "v1beta1": "size"}[version]
			size := spec[from]
			switch size {
			case nil:
				return nil
			case "odd":
				return errors.New("no such size")
			case "named":
				obj.SetName("other")
			}
			delete(spec, from)
			spec[map[string]string{"v1": "size", "v1beta1": "big"}[version]] = size
			obj.Object["spec"] = spec
			return nil
		}
		s := lwtest.NewServer(t, r)
		const beta, old = "/apis/example.com/v1beta1/namespaces/default/", `"apiVersion":"example.com/v1beta1"`
		for _, tt := range []struct {
			method, path, contentType, body string
			code                            int
			want                            string
		}{
			{"POST", "jobs", "application/json", `{"metadata":{"name":"a"},"spec":{"size":1}}`, 201, `"size":1`},
			{"GET", beta + "jobs/a", "", "", 200, `"spec":{"big":1}`},
			{"GET", "jobs/a", "", "", 200, `"spec":{"size":1}`},
			{"GET", beta + "jobs", "", "", 200, old},
			{"GET", beta + "jobs?watch=1&resourceVersion=1&timeoutSeconds=1", "", "", 200, `"big":1`},
			{"PATCH", beta + "jobs/a", mergePatch, `{"spec":{"big":2}}`, 200, `"spec":{"big":2}`},
			{"GET", "jobs/a", "", "", 200, `"spec":{"size":2}`},
			{"PATCH", beta + "jobs/a", mergePatch, `{"spec":{"big":2}}`, 200, `"generation":2`}, // nothing changes
			{"PUT", beta + "jobs/a", "application/json", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}}`,
				400, "example.com/v1"},
			{"PUT", beta + "jobs/a", "application/json", `{"metadata":{"name":"a"},"spec":{"big":"odd"}}`, 500, "no such size"},
			{"PUT", beta + "jobs/a", "application/json", `{"metadata":{"name":"a"},"spec":{"big":"named"}}`, 500,
				"it has become"},
			{"POST", beta + "jobs", "application/json", `{"metadata":{"name":"a"}}`, 409, "AlreadyExists"},
			{"PATCH", beta + "jobs/b?fieldManager=m", "application/apply-patch+yaml",
				"{apiVersion: example.com/v1beta1, kind: Job, metadata: {name: b}, spec: {big: 3, replicas: 2}}", 201, old},
			{"GET", "jobs/b/scale", "", "", 200, `"spec":{"replicas":2}`},
			{"GET", beta + "jobs/b/scale", "", "", 200, `"spec":{"replicas":2}`},
			{"GET", "jobs/a/scale", "", "", 500, ".spec.replicas"},
			{"DELETE", beta + "jobs/b", "", "", 200, "Success"},
			{"GET", "/apis/example.com", "", "", 200, `"preferredVersion":{"groupVersion":"example.com/v1",`},
		} {
			if code, body := sendWrite(s, tt.method, tt.path, tt.contentType, tt.body); code != tt.code ||
				!strings.Contains(body, tt.want) {
				t.Errorf("%s %s %s: %d %s\nwant %d %s", tt.method, tt.path, tt.body, code, body, tt.code, tt.want)
			}
		}
		s.SetServed("jobs", false)
		code, _ := sendWrite(s, "GET", beta+"jobs", "", "")
		rig.Same(t, "not served", http.StatusNotFound, code)
	})
}

// An object stays whose deletion is refused, and holds up no other.
func TestCollectRefused(t *testing.T) {
	for _, refusal := range []error{errors.New("no"), apierrors.NewConflict(schema.GroupResource{}, "p",
		errors.New("no"))} {
		synctest.Test(t, func(t *testing.T) {
			r := jobs
			r.Validate = func(_ context.Context, a lwtest.Admission) error {
				if a.Verb == lwtest.Delete && a.Old.(*unstructured.Unstructured).GetName() == "p" {
					return refusal
				}
				return nil
			}
			s := lwtest.NewServer(t, r)
			for _, name := range []string{"p", "q"} {
				job := newJob(key(name), 1)
				job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Job", Name: "a", UID: "gone"}}
				rig.Must[*Job](t)(lwtest.Objects[*Job](s, "jobs").Create(job))
			}
			rig.Same(t, fmt.Sprintf("%v", refusal), []string{"delete jobs default/q", ""}, []string{s.Collect(), s.Collect()})
		})
	}
}

// The functions of a Resource see each write, and change or refuse it.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		r := jobs
		r.Status, r.Versioned = true, true
		r.Default = func(_ context.Context, a lwtest.Admission) error {
			u := a.Object.(*unstructured.Unstructured)
			if a.Verb == lwtest.Create {
				u.SetUID("given")
				u.SetName("another") // who the object is does not change
			}
			return unstructured.SetNestedField(u.Object, "yes", "spec", "defaulted")
		}
		r.Validate = func(_ context.Context, a lwtest.Admission) error {
			seen = append(seen, fmt.Sprintf("%s %s %t %t %t", a.Verb, a.Subresource, a.Object != nil, a.Old != nil, a.DryRun))
			u, _ := a.Object.(*unstructured.Unstructured)
			if u != nil && u.GetAnnotations()["bad"] != "" {
				return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations"), "bad")}.ToAggregate()
			}
			return nil
		}
		s := lwtest.NewServer(t, r)
		for _, step := range []struct {
			method, path, contentType, body string
			code                            int
			says                            string
		}{
			{"POST", "jobs", "application/json", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}}`, 201,
				`"uid":"given"`},
			{"PATCH", "jobs/a?dryRun=All", mergePatch, `{"spec":{"defaulted":"no"}}`, 200, `"defaulted":"yes"`},
			{"PATCH", "jobs/a", mergePatch, `{"metadata":{"annotations":{"bad":"1"}}}`, 422, `"field":"metadata.annotations"`},
			{"PATCH", "jobs/a/status", mergePatch, `{"status":{"n":1}}`, 200, `"n":1`},
			{"PUT", "jobs/a", "application/json", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"}}`, 422,
				"must be specified for an update"},
			{"DELETE", "jobs/a", "", "", 200, ""},
		} {
			if code, body := sendWrite(s, step.method, step.path, step.contentType, step.body); code != step.code ||
				!strings.Contains(body, step.says) {
				t.Errorf("%s %s: %d %s, want %d %s", step.method, step.path, code, body, step.code, step.says)
			}
		}
		want := []string{"create  true false false", "update  true true true", "update  true true false",
			"update status true true false", "delete  false true false"}
		rig.Same(t, "seen", want, seen)
		own := lwtest.Objects[*Job](s, "jobs") // the test itself needs no version
		b := rig.Must[*Job](t)(own.Create(newJob(key("b"), 1)))
		b.ResourceVersion = ""
		rig.Must[*Job](t)(own.Update(b))
	})
}

// A Resource may have rules of its own for names, and for the beginnings of those that the server
// makes.
func TestValidateName(t *testing.T) {
	r := jobs
	r.ValidateName = func(name string, prefix bool) []string {
		if strings.HasPrefix(name, "Big") {
			return nil
		}
		return []string{fmt.Sprintf("no big name, prefix %t", prefix)}
	}
	s := lwtest.NewServer(t, r)
	for metadata, says := range map[string]string{
		`"name":"Big"`: "", `"name":"small"`: "no big name, prefix false",
		`"generateName":"Big-"`: "", `"generateName":"small-"`: "no big name, prefix true",
	} {
		code, body := sendWrite(s, "POST", "jobs", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Job","metadata":{`+metadata+`}}`)
		if want := map[bool]int{true: 201, false: 422}[says == ""]; code != want || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s, want %d %q", metadata, code, body, want, says)
		}
	}
}

// A Resource that is none is refused when the server is made, and an object that is no T when it is
// read.
func TestWrongTypes(t *testing.T) {
	rig.MustPanic(t, "a Resource needs Resource and Kind", func() { lwtest.StartServer(lwtest.Resource{Plural: "x"}) })
	rig.MustPanic(t, "a Resource needs Resource and Kind", func() { lwtest.StartServer(lwtest.Resource{Kind: "X"}) })
	rig.MustPanic(t, "lwtest: x: ", func() {
		lwtest.StartServer(lwtest.Resource{Plural: "x", Kind: "X", Type: notAStruct(0)})
	})
	s, _ := newJobs(t)
	code, body := sendWrite(s, "POST", "jobs", "application/json",
		`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"size":"big"}}`)
	rig.Same(t, body, 201, code)
	const want = "lwtest: default/a does not fit *lwtest_test.Job: "
	if _, err := lwtest.Objects[*Job](s, "jobs").Get(key("a")); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Get: %v, want %q", err, want)
	}
	rig.MustPanic(t, want, func() {
		for range lwtest.Objects[*Job](s, "jobs").All() {
			t.Error("an object that is no Job")
		}
	})
	for range lwtest.Objects[*metav1.PartialObjectMetadata](s, "jobs").All() {
		return // a loop may end before All does
	}
}

// With Managed the managers of fields are kept from the creation on, and else from the first apply
// on.
func TestManaged(t *testing.T) {
	for _, managed := range []bool{false, true} {
		r := jobs
		r.Managed = managed
		s := lwtest.NewServer(t, r)
		code, body := sendWrite(s, "POST", "jobs?fieldManager=m", "application/json",
			`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"size":1}}`)
		if code != 201 || strings.Contains(body, `"manager":"m"`) != managed {
			t.Errorf("managed %v: %d %s", managed, code, body)
		}
	}
}
