package controllerruntime_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/controllerruntime"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

var onlyPods = controllerruntime.Options{Only: map[client.Object]lw.Fields{
	&corev1.Pod{}: {"metadata.labels", "metadata.annotations.example.com/*", "metadata.annotations.app", "spec.nodeSelector.os", "spec.nodeName", "status.conditions.type"},
}}

// The cache has the fields of Only of the kinds that it names, and all of others.
func TestNewCacheOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c := b.start(controllerruntime.NewCacheWith(onlyPods), cache.Options{})
		var pod corev1.Pod
		rig.OK(t, c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "pod-2"}, &pod))
		whole := newPod("a", 2)
		whole.TypeMeta, whole.UID, whole.ResourceVersion = pod.TypeMeta, pod.UID, pod.ResourceVersion
		if diff := cmp.Diff(lwtest.Prune(whole, onlyPods.Only[keyOf(onlyPods)]), &pod); diff != "" || pod.Spec.NodeName != "n1" || len(pod.Spec.Containers) > 0 {
			t.Errorf("(-want +got):\n%s", diff)
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(podKind)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(&pod), u); err != nil || u.Object["spec"].(map[string]any)["containers"] == nil {
			t.Errorf("an unstructured pod: %v, %v", err, u)
		}
		var node corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: "n0"}, &node); err != nil || node.CreationTimestamp.IsZero() {
			t.Errorf("a node: %v, %+v", err, node)
		}
	})
}

func keyOf(o controllerruntime.Options) client.Object {
	for example := range o.Only {
		return example
	}
	return nil
}

// Wrong options are errors of the cache and of the client, which name the option.
func TestOnlyOfNothing(t *testing.T) {
	for want, only := range map[string]map[client.Object]lw.Fields{
		`v1.PodSpec has no "nodeNam" to keep`: {&corev1.Pod{}: {"spec.nodeNam"}},
		"without a kind":                      {&unstructured.Unstructured{}: {"spec"}},
		"two examples of *v1.Pod":             {&corev1.Pod{}: {"spec"}, &corev1.Pod{}: {"status"}},
		"is no example":                       {(*corev1.Pod)(nil): {"spec"}},
		"<nil> is no example":                 {nil: {"spec"}},
	} {
		o := controllerruntime.Options{Only: only}
		_, err := controllerruntime.NewCacheWith(o)(&rest.Config{}, cache.Options{Mapper: meta.NewDefaultRESTMapper(nil)})
		if err == nil || !strings.HasPrefix(err.Error(), "controllerruntime: NewCache: Only: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("the cache: %v, want %s", err, want)
		}
		_, err = controllerruntime.NewClient(o)(&rest.Config{}, client.Options{Mapper: meta.NewDefaultRESTMapper(nil)})
		if err == nil || !strings.HasPrefix(err.Error(), "controllerruntime: NewClient: Only: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("the client: %v, want %s", err, want)
		}
	}
}

// What controller-runtime's own constructors refuse is no cache and no client, also with Only.
func TestOnlyOfWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		c, err := controllerruntime.NewCacheWith(onlyPods)(b.config, cache.Options{Mapper: b.mapper, ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {Namespaces: map[string]cache.Config{"a": {}}},
		}})
		if err == nil || c != nil {
			t.Errorf("a cache of nodes of a namespace: %v, %v", c, err)
		}
		if c, err := controllerruntime.NewClient(onlyPods)(nil, client.Options{}); err == nil || c != nil {
			t.Errorf("a client without a config: %v, %v", c, err)
		}
		unknown := controllerruntime.Options{Only: map[client.Object]lw.Fields{&corev1.Pod{}: {"spec"}}}
		if c, err := controllerruntime.NewClient(unknown)(b.config, client.Options{Mapper: b.mapper, Scheme: runtime.NewScheme()}); err == nil || c != nil {
			t.Errorf("a client whose scheme has no pods: %v, %v", c, err)
		}
	})
}

// A manager whose cache has Only, and whose client does not refuse what that would delete, says so
// when it starts: in Options.Logger or in klog.
func TestOnlyWithoutTheClient(t *testing.T) {
	other := controllerruntime.Options{Only: map[client.Object]lw.Fields{&corev1.Pod{}: {"spec"}, &corev1.Node{}: {"spec"}}}
	both := controllerruntime.Options{Only: map[client.Object]lw.Fields{&corev1.Pod{}: onlyPods.Only[keyOf(onlyPods)], &corev1.Node{}: {"spec"}}}
	for name, tt := range map[string]struct {
		cache  controllerruntime.Options
		client client.NewClientFunc
		want   string
	}{
		"no client":             {onlyPods, nil, "[*v1.Pod]"},
		"no client, two kinds":  {both, nil, "[*v1.Node *v1.Pod]"},
		"its client":            {onlyPods, controllerruntime.NewClient(onlyPods), ""},
		"a client of more":      {onlyPods, controllerruntime.NewClient(both), ""},
		"a client of less":      {both, controllerruntime.NewClient(onlyPods), "[*v1.Node]"},
		"a client of no kind":   {onlyPods, controllerruntime.NewClient(controllerruntime.Options{}), "[*v1.Pod]"},
		"a client of other":     {onlyPods, controllerruntime.NewClient(other), "[*v1.Pod]"},
		"a cache without masks": {controllerruntime.Options{}, nil, ""},
	} {
		for _, own := range []bool{false, true} {
			rig.Subtest(t, fmt.Sprintf("%s/own=%t", name, own), func(t *testing.T) {
				b := newBench(t)
				var log strings.Builder
				if own {
					tt.cache.Logger = slog.New(slog.NewTextHandler(&log, nil))
				}
				c := rig.Must[cluster.Cluster](t)(cluster.New(b.config, func(o *cluster.Options) {
					o.NewCache, o.NewClient = controllerruntime.NewCacheWith(tt.cache), tt.client
					o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return b.mapper, nil }
				}))
				ctx, cancel := context.WithCancel(t.Context())
				if !own {
					ctx = klog.NewContext(ctx, funcr.New(func(_, args string) { log.WriteString(args) }, funcr.Options{}))
				}
				ended := make(chan error, 1)
				go func() { ended <- c.Start(ctx) }()
				synctest.Wait()
				cancel()
				rig.OK(t, <-ended)
				got := log.String()
				warned := strings.Contains(got, "NewClient: controllerruntime.NewClient(options)")
				if i := strings.Index(got, "*v1.Pod"); i >= 0 && i < strings.Index(got, "*v1.Node") {
					t.Errorf("the kinds are not in their order: %s", got)
				}
				for _, kind := range []string{"*v1.Pod", "*v1.Node"} {
					if strings.Contains(got, kind) != strings.Contains(tt.want, kind) || warned != (tt.want != "") {
						t.Errorf("it says %q, want a warning of %s", got, tt.want)
					}
				}
			})
		}
	}
}

// Writes of a kind that has a mask are refused before anything is sent, and the error says what to
// do. What cannot delete anything is sent, and so is everything of other kinds.
func TestGuard(t *testing.T) {
	var sent []string
	transport := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		body := ""
		if r.Body != nil {
			data, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = string(data)
		}
		sent = append(sent, r.Method+" "+r.URL.Path+" "+body)
		kind := map[bool]string{true: "Node", false: "Pod"}[strings.Contains(r.URL.Path, "/nodes/")]
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(`{"kind":"` + kind + `","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}}`)), Request: r}, nil
	})
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(podKind, meta.RESTScopeNamespace)
	mapper.Add(nodeKind, meta.RESTScopeRoot)
	config := &rest.Config{Host: "http://apiserver", Transport: transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c := rig.Must[client.Client](t)(controllerruntime.NewClient(onlyPods)(config, client.Options{Mapper: mapper, Scheme: scheme.Scheme}))
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: "5", Labels: map[string]string{"a": "b"}}}
	}
	changed := func(change func(*corev1.Pod)) (*corev1.Pod, client.Patch) {
		p := pod()
		change(p)
		return p, client.MergeFrom(pod())
	}
	untyped := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "n", "name": "a"}}}
	ctx := t.Context()
	merge := func(change func(*corev1.Pod)) func() error {
		return func() error {
			p, patch := changed(change)
			return c.Patch(ctx, p, patch)
		}
	}
	raw := func(typ types.PatchType, data string) func() error {
		return func() error { return c.Patch(ctx, pod(), client.RawPatch(typ, []byte(data))) }
	}
	refused := map[string]struct {
		do   func() error
		want string
	}{
		"update":        {func() error { return c.Update(ctx, pod()) }, "Update of *v1.Pod n/a is refused"},
		"status":        {func() error { return c.Status().Update(ctx, pod()) }, "Update of status of *v1.Pod n/a is refused"},
		"a subresource": {func() error { return c.SubResource("resize").Update(ctx, pod()) }, "Update of resize"},
		"a body": {func() error {
			return c.SubResource("resize").Update(ctx, &corev1.Node{}, client.WithSubResourceBody(pod()))
		}, "Update of resize"},
		"a patch's body": {func() error {
			return c.Status().Patch(ctx, pod(), client.MergeFrom(pod()), client.WithSubResourceBody(pod()))
		}, "Patch of status"},
		"apply":           {func() error { return c.Apply(ctx, corev1ac.Pod("a", "n")) }, "Apply of Pod is refused"},
		"untyped apply":   {func() error { return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(untyped)) }, "Apply of Pod is refused"},
		"apply status":    {func() error { return c.Status().Apply(ctx, corev1ac.Pod("a", "n")) }, "Apply of status of Pod"},
		"strategic patch": {raw(types.StrategicMergePatchType, `{"metadata":{"labels":{"a":"c"}}}`), "a patch of type application/strategic-merge-patch+json"},
		"JSON patch":      {raw(types.JSONPatchType, `[]`), "a patch of type application/json-patch+json"},
		"apply patch":     {raw(types.ApplyPatchType, `{}`), "a patch of type"},
		"another field":   {merge(func(p *corev1.Pod) { p.Spec.Hostname = "h" }), `the patch changes "spec.hostname"`},
		"finalizers":      {merge(func(p *corev1.Pod) { p.Finalizers = []string{"mine"} }), `the patch changes "metadata.finalizers"`},
		"a list of parts": {merge(func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: "x"}} }), `the patch changes "status.conditions"`},
		"another key":     {merge(func(p *corev1.Pod) { p.Annotations = map[string]string{"other": "x"} }), `the patch changes "metadata.annotations.other"`},
		"a longer key":    {merge(func(p *corev1.Pod) { p.Annotations = map[string]string{"app": "x", "app.kubernetes.io/name": "y"} }), `the patch changes "metadata.annotations.app.kubernetes.io/name"`},
		"an object":       {raw(types.MergePatchType, `{"spec":{"nodeSelector":{"o":{"s":"x"}}}}`), `the patch changes "spec.nodeSelector.o.s"`},
		"a null":          {raw(types.MergePatchType, `{"spec":null}`), `the patch changes "spec"`},
		"an empty object": {raw(types.MergePatchType, `{"spec":{}}`), `the patch changes "spec"`},
		"no object":       {raw(types.MergePatchType, `[]`), `the patch changes ""`},
		"no JSON":         {raw(types.MergePatchType, `{`), "the patch: unexpected end"},
		"patch of status": {func() error {
			p, patch := changed(func(p *corev1.Pod) { p.Status.Phase = "Failed" })
			return c.Status().Patch(ctx, p, patch)
		}, `Patch of status of *v1.Pod n/a is refused`},
	}
	for name, tt := range refused {
		sent = nil
		err := tt.do()
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(sent) > 0 {
			t.Errorf("%s: %v, and %q was sent; want %s", name, err, sent, tt.want)
		}
		if err != nil && name != "no JSON" && (!strings.Contains(err.Error(), `"spec.nodeName"`) || !strings.Contains(err.Error(), "GetAPIReader")) {
			t.Errorf("%s: the error says neither the mask nor the way out: %v", name, err)
		}
	}
	for name, tt := range map[string]struct {
		do   func() error
		want string
	}{
		"a kept field":    {merge(func(p *corev1.Pod) { p.Spec.NodeName = "x" }), `PATCH /api/v1/namespaces/n/pods/a {"spec":{"nodeName":"x"}}`},
		"a label":         {merge(func(p *corev1.Pod) { p.Labels["a"] = "c" }), `PATCH /api/v1/namespaces/n/pods/a {"metadata":{"labels":{"a":"c"}}}`},
		"no labels":       {merge(func(p *corev1.Pod) { p.Labels = nil }), `PATCH /api/v1/namespaces/n/pods/a {"metadata":{"labels":null}}`},
		"a key":           {merge(func(p *corev1.Pod) { p.Annotations = map[string]string{"app": "x"} }), `PATCH /api/v1/namespaces/n/pods/a {"metadata":{"annotations":{"app":"x"}}}`},
		"a key that fits": {merge(func(p *corev1.Pod) { p.Annotations = map[string]string{"example.com/x": "y"} }), `PATCH /api/v1/namespaces/n/pods/a {"metadata":{"annotations":{"example.com/x":"y"}}}`},
		"a version": {raw(types.MergePatchType, `{"metadata":{"resourceVersion":"5","labels":{"a":"c"}}}`),
			`PATCH /api/v1/namespaces/n/pods/a {"metadata":{"resourceVersion":"5","labels":{"a":"c"}}}`},
		"nothing": {raw(types.MergePatchType, `{}`), `PATCH /api/v1/namespaces/n/pods/a {}`},
		"a node":  {func() error { return c.Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}) }, `PUT /api/v1/nodes/a {`},
		"a node's patch": {func() error {
			return c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, client.RawPatch(types.JSONPatchType, []byte("[]")))
		}, `PATCH /api/v1/nodes/a []`},
		"a node's apply": {func() error { return c.Apply(ctx, corev1ac.Node("a"), client.FieldOwner("me")) }, `PATCH /api/v1/nodes/a {`},
		"untyped":        {func() error { return c.Update(ctx, untyped.DeepCopy()) }, `PUT /api/v1/namespaces/n/pods/a {`},
		"create":         {func() error { p := pod(); p.ResourceVersion = ""; return c.Create(ctx, p) }, `POST /api/v1/namespaces/n/pods {`},
		"delete":         {func() error { return c.Delete(ctx, pod()) }, `DELETE /api/v1/namespaces/n/pods/a `},
		"a body": {func() error {
			return c.SubResource("scale").Update(ctx, pod(), client.WithSubResourceBody(&corev1.Node{}))
		}, `PUT /api/v1/namespaces/n/pods/a/scale {`},
		"unguarded": {func() error { return controllerruntime.Unguarded(c).Update(ctx, pod()) }, `PUT /api/v1/namespaces/n/pods/a {`},
		"unguarded twice": {func() error {
			return controllerruntime.Unguarded(controllerruntime.Unguarded(c)).Status().Update(ctx, pod())
		}, `PUT /api/v1/namespaces/n/pods/a/status {`},
	} {
		sent = nil
		if err := tt.do(); err != nil || len(sent) != 1 || !strings.HasPrefix(sent[0], tt.want) {
			t.Errorf("%s: %v, and %q was sent; want %s", name, err, sent, tt.want)
		}
	}
	// Without masks there is nothing to guard.
	plain, err := controllerruntime.NewClient(controllerruntime.Options{})(config, client.Options{Mapper: mapper, Scheme: scheme.Scheme})
	if err != nil || plain != controllerruntime.Unguarded(plain) {
		t.Errorf("a client without masks: %T, %v", plain, err)
	}
}
