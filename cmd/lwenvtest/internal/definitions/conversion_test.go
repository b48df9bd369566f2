package definitions_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/cert"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/definitions"
)

// A hook is a conversion webhook: what v1 calls size is count in v2.
type hook struct {
	*httptest.Server
	bundle string // its CA

	mu     sync.Mutex
	asked  []string // of each request: the path, the objects and the version that is wanted
	answer func(r *apiextensionsv1.ConversionResponse)
}

func newHook(t *testing.T) *hook {
	pem, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)},
		[]string{"hooks.default.svc"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(pem, key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{bundle: base64.StdEncoding.EncodeToString(pem)}
	h.Server = httptest.NewUnstartedServer(h)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// ResolveEndpoint makes the hook every Service there is.
func (h *hook) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if name != "hooks" {
		return nil, fmt.Errorf("service %q not found", name)
	}
	return url.Parse(h.URL)
}

// said returns what was asked since the last call.
func (h *hook) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

// answers has f change the answers to come; nil: nothing does.
func (h *hook) answers(f func(r *apiextensionsv1.ConversionResponse)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var review apiextensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := r.URL.Path
	out := &apiextensionsv1.ConversionResponse{UID: review.Request.UID,
		Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said += fmt.Sprint(" ", u.GetName(), " ", u.GroupVersionKind().Version, ">", review.Request.DesiredAPIVersion)
		from, to := "size", "count"
		if strings.HasSuffix(review.Request.DesiredAPIVersion, "/v1") {
			from, to = to, from
		}
		if spec, ok := u.Object["spec"].(map[string]any); ok {
			spec[to] = spec[from] // and from stays, which the schema takes away
			spec["note"] = "by the webhook"
		}
		u.SetAPIVersion(review.Request.DesiredAPIVersion)
		data, _ := u.MarshalJSON()
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: data})
	}
	h.asked = append(h.asked, said)
	if h.answer != nil {
		h.answer(out)
	}
	review.Request, review.Response = nil, out
	_ = json.NewEncoder(w).Encode(&review)
}

// two is a definition of two versions: by says how they are converted.
func two(by string) string {
	v2 := strings.NewReplacer("self.size < 10", "self.count < 20", "size: {type: integer",
		"count: {type: integer").Replace(spec)
	return one + `  - name: v2
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.size}}
    additionalPrinterColumns: [{name: Count, type: integer, jsonPath: .spec.count}]
    schema:
      openAPIV3Schema:` + v2 + "  conversion: " + by + "\n"
}

func (h *hook) by() string {
	return "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: \"" + h.URL + "/convert\", caBundle: " + h.bundle + "}}}"
}

// An object is written, read, listed and watched in a version that is not stored.
func TestWebhook(t *testing.T) {
	h := newHook(t)
	w := begin(t, definitions.Options{})
	w.mustDefine(two(h.by()))
	v1, v2, ctx := w.crews("v1"), w.crews("v2"), t.Context()
	watcher, err := v2.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	u, err := v1.Create(ctx, crew("v1", "a", `,"spec":{"size":4}`), metav1.CreateOptions{})
	if got := said(u, err, "spec"); got != `{"size":4}` {
		t.Error("created:", got)
	}
	if ev := <-watcher.ResultChan(); ev.Type != watch.Added || said(ev.Object.(*unstructured.Unstructured), nil,
		"spec") != `{"count":4}` {
		t.Error("watched:", ev)
	}
	u, err = v2.Get(ctx, "a", metav1.GetOptions{})
	if got := said(u, err, "spec"); got != `{"count":4}` || u.GetAPIVersion() != "example.com/v2" {
		t.Error("read:", got)
	}
	list, err := v2.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || said(&list.Items[0], nil, "spec") != `{"count":4}` {
		t.Error("listed:", list, err)
	}
	// One conversion was enough for the three of them, as with a watch cache.
	if diff := cmp.Diff([]string{"/convert a v1>example.com/v2"}, h.said()); diff != "" {
		t.Error(diff)
	}

	u, err = v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"count":15}}`), metav1.PatchOptions{})
	if got := said(u, err, "spec"); got != `{"count":15}` {
		t.Error("patched:", got)
	}
	if ev := <-watcher.ResultChan(); ev.Type != watch.Modified || said(ev.Object.(*unstructured.Unstructured), nil,
		"spec") != `{"count":15}` {
		t.Error("watched:", ev)
	}
	// The rules are those of the version of the request; what is stored obeys no others.
	if u, err = v1.Get(ctx, "a", metav1.GetOptions{}); said(u, err, "spec") != `{"size":15}` {
		t.Error("read in the version that is stored:", said(u, err, "spec"))
	}
	u, err = v1.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":16}}`), metav1.PatchOptions{})
	if got := said(u, err, "spec"); !strings.Contains(got, "less than ten") {
		t.Error("against the rules:", got)
	}
	apply := crew("v2", "b", `,"spec":{}`)
	u, err = v2.Apply(ctx, "b", apply, metav1.ApplyOptions{FieldManager: "m"})
	if got := said(u, err, "spec"); got != `{"count":3}` {
		t.Error("applied:", got)
	}
	if u, err = v2.Get(ctx, "b", metav1.GetOptions{}, "scale"); said(u, err, "spec") != `{"replicas":3}` {
		t.Error("the scale:", said(u, err, "spec"))
	}
	if _, err := v2.Get(ctx, "b", metav1.GetOptions{}, "status"); !apierrors.IsNotFound(err) {
		t.Error("v2 has no status:", err)
	}
	if err := v2.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} { // the watch may convert b later than the rest
		if ev := <-watcher.ResultChan(); ev.Type != want || ev.Object.(*unstructured.Unstructured).GetName() != "b" {
			t.Error("watched:", ev)
		}
	}

	// What is stored changes, and what was stored before stays as it is until somebody writes it.
	h.said()
	swapped := strings.NewReplacer("served: true\n    storage: true", "served: false\n    storage: false",
		"storage: false", "storage: true").Replace(two(h.by()))
	w.mustDefine(swapped)
	if _, err = v1.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error("a version that is not served:", err)
	}
	if u, err = v2.Get(ctx, "a", metav1.GetOptions{}); said(u, err, "spec") != `{"count":15}` {
		t.Error("stored in another version:", said(u, err, "spec"))
	}
	if _, err = v2.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"count":9}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"/convert a v1>example.com/v2"}, h.said()); diff != "" {
		t.Error(diff)
	}
	def, err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "crews.example.com", metav1.GetOptions{})
	if err != nil || fmt.Sprint(def.Status.StoredVersions) != "[v1 v2]" {
		t.Error("the versions that are stored:", def.Status.StoredVersions, err)
	}
	// A version may be stored that nobody is served.
	w.mustDefine(strings.NewReplacer("served: true\n    storage: true",
		"served: false\n    storage: true").Replace(two(h.by())))
	u, err = v2.Create(ctx, crew("v2", "c", `,"spec":{"count":5}`), metav1.CreateOptions{})
	if got := said(u, err, "spec"); got != `{"count":5}` {
		t.Error("stored in a version that is not served:", got)
	}
	if diff := cmp.Diff([]string{"/convert c v2>example.com/v1", "/convert c v1>example.com/v2"}, h.said()); diff != "" {
		t.Error(diff)
	}
}

// What goes wrong with a webhook is an answer 500 with the words of kube-apiserver, to reads and to
// writes, or the end of a watch; and what needs no conversion works.
func TestBadWebhook(t *testing.T) {
	h := newHook(t)
	w := begin(t, definitions.Options{Services: h})
	w.mustDefine(two(h.by()))
	v1, v2, ctx := w.crews("v1"), w.crews("v2"), t.Context()
	if _, err := v1.Create(ctx, crew("v1", "a", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	edit := func(f func(u *unstructured.Unstructured)) func(r *apiextensionsv1.ConversionResponse) {
		return func(r *apiextensionsv1.ConversionResponse) {
			u := &unstructured.Unstructured{}
			_ = u.UnmarshalJSON(r.ConvertedObjects[0].Raw)
			f(u)
			r.ConvertedObjects[0].Raw, _ = u.MarshalJSON()
		}
	}
	for name, tt := range map[string]struct {
		answer func(r *apiextensionsv1.ConversionResponse)
		want   string
	}{
		"a refusal": {func(r *apiextensionsv1.ConversionResponse) {
			r.Result = metav1.Status{Status: metav1.StatusFailure, Message: "no such crew"}
		}, "conversion webhook for example.com/v1, Kind=Crew failed: no such crew"},
		"no objects": {func(r *apiextensionsv1.ConversionResponse) { r.ConvertedObjects = nil },
			"conversion webhook for example.com/v1, Kind=Crew returned 0 objects, expected 1"},
		"another request's": {func(r *apiextensionsv1.ConversionResponse) { r.UID = "x" },
			"conversion webhook for example.com/v1, Kind=Crew failed: expected response.uid="},
		"the version": {edit(func(u *unstructured.Unstructured) { u.SetAPIVersion("example.com/v1") }),
			"conversion webhook for example.com/v1, Kind=Crew returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)"},
		"the name": {edit(func(u *unstructured.Unstructured) { u.SetName("x") }),
			"conversion webhook for example.com/v1, Kind=Crew returned invalid object: must have the same name: a != x"},
	} {
		h.answers(tt.answer)
		_, err := v2.Get(ctx, "a", metav1.GetOptions{})
		if got := said(nil, err); !strings.HasPrefix(got, "500 "+tt.want) || apierrors.ReasonForError(err) != "" {
			t.Errorf("%s: %s\nwant 500 %s", name, got, tt.want)
		}
		if _, err = v2.List(ctx, metav1.ListOptions{}); !strings.HasPrefix(said(nil, err), "500 "+tt.want) {
			t.Errorf("%s in a list: %v", name, err)
		}
	}
	h.answers(edit(func(u *unstructured.Unstructured) { u.SetName("x") }))
	_, err := v2.Create(ctx, crew("v2", "b", ""), metav1.CreateOptions{})
	if got, want := said(nil, err), "500 conversion webhook for example.com/v2, Kind=Crew returned invalid object: must have the same name: b != x"; got != want {
		t.Error("a creation:", got)
	}
	watcher, err := v2.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ev := <-watcher.ResultChan(); ev.Type != watch.Error || !strings.Contains(fmt.Sprint(ev.Object),
		"conversion webhook for example.com/v1") {
		t.Error("a watch:", ev)
	}
	h.answers(nil)
	if u, err := v2.Get(ctx, "a", metav1.GetOptions{}); said(u, err, "spec") != "null" {
		t.Error("a good answer after that:", said(u, err, "spec"))
	}

	// Its address, and what it may not change.
	service := func(name string) string {
		return "{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: " + name +
			", path: /other}, caBundle: " + h.bundle + "}}}"
	}
	h.said()
	w.mustDefine(two(service("hooks")))
	h.answers(edit(func(u *unstructured.Unstructured) {
		u.SetLabels(map[string]string{"x": "y"})
		u.SetFinalizers([]string{"x/y"})
	}))
	u, err := v2.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || u.GetLabels()["x"] != "y" || u.GetFinalizers() != nil {
		t.Error("the metadata:", u, err)
	}
	if diff := cmp.Diff([]string{"/other a v1>example.com/v2"}, h.said()); diff != "" {
		t.Error(diff)
	}
	for by, want := range map[string]string{
		service("none"): `conversion webhook for example.com/v1, Kind=Crew failed: Post "https://none.default.svc:443/other?timeout=30s": service "none" not found`,
		strings.Replace(h.by(), "https://", "https://localhost.invalid.", 1): "no such host",
		strings.Replace(h.by(), h.bundle, newHook(t).bundle, 1):              "x509: certificate signed by unknown authority",
	} {
		w.mustDefine(two(by))
		_, err := v2.Get(ctx, "a", metav1.GetOptions{})
		if got := said(nil, err); !strings.HasPrefix(got, "500 conversion webhook for") || !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if _, err := v1.Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Error("in the version that is stored:", err)
	}
	// A definition goes with its objects, whoever is gone before it.
	if err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, "crews.example.com",
		metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := w.crds.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "crews.example.com",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error("a definition that is deleted:", err)
	}
}

// Without a webhook the versions differ by what their schemas have.
func TestNoWebhook(t *testing.T) {
	w := begin(t, definitions.Options{})
	w.mustDefine(two("{strategy: None}"))
	v1, v2, ctx := w.crews("v1"), w.crews("v2"), t.Context()
	if _, err := v1.Create(ctx, crew("v1", "a", `,"spec":{"size":4,"name":"n"}`), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if u, err := v2.Get(ctx, "a", metav1.GetOptions{}); said(u, err,
		"spec") != `{"name":"n"}` || u.GetAPIVersion() != "example.com/v2" {
		t.Error("read:", said(u, err, "spec"))
	}
	u, err := v2.Create(ctx, crew("v2", "b", `,"spec":{"name":"n"}`), metav1.CreateOptions{})
	if said(u, err, "spec") != `{"name":"n"}` { // v1 has no count
		t.Error("created:", said(u, err, "spec"))
	}
	if u, err = v1.Get(ctx, "b", metav1.GetOptions{}); said(u, err, "spec") != `{"name":"n","size":3}` {
		t.Error("read:", said(u, err, "spec"))
	}
}

// A definition that is deleted takes no new objects, and goes with the last of those that it has.
func TestDeletion(t *testing.T) {
	w := begin(t, definitions.Options{})
	w.mustDefine(one)
	crews, ctx, crds := w.crews("v1"), t.Context(), w.crds.ApiextensionsV1().CustomResourceDefinitions()
	held := crew("v1", "a", "")
	held.SetFinalizers([]string{"example.com/held"})
	for _, u := range []*unstructured.Unstructured{held, crew("v1", "b", "")} {
		if _, err := crews.Create(ctx, u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := crds.Delete(ctx, "crews.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	def, err := crds.Get(ctx, "crews.example.com", metav1.GetOptions{})
	if err != nil || def.DeletionTimestamp == nil {
		t.Fatal("a definition with an object:", err)
	}
	if c := def.Status.Conditions[len(def.Status.Conditions)-1]; c.Type != apiextensionsv1.Terminating || c.Status != "True" {
		t.Error("its condition:", c)
	}
	_, err = crews.Create(ctx, crew("v1", "c", ""), metav1.CreateOptions{})
	if got, want := said(nil, err), `403 crews.example.com "c" is forbidden: create not allowed while custom resource definition is terminating`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	list, err := crews.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetDeletionTimestamp() == nil || list.Items[0].GetGeneration() != 2 {
		t.Error("what is left:", list, err)
	}
	if _, err = crews.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err = crds.Get(ctx, "crews.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Error("a definition without objects:", err)
	}
	if _, err = crews.List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Error("its objects:", err)
	}
}
