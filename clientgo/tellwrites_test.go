package clientgo_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

// podJSON is a pod as a server answers with it.
func podJSON(namespace, name, version string, more ...string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"u-%s","resourceVersion":%q%s}}`, name, namespace, name, version, strings.Join(more, ""))
}

// partial is the metadata of a pod as a server answers with it.
func partial(namespace, name, version string, more ...string) string {
	text := strings.Replace(podJSON(namespace, name, version, more...), `"Pod"`, `"PartialObjectMetadata"`, 1)
	return strings.Replace(text, `"v1"`, `"meta.k8s.io/v1"`, 1)
}

const (
	metadataType = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	success      = `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","kind":"pods","uid":"u-a"}}`
	marked       = `,"deletionTimestamp":"2026-11-26T00:00:00Z"`
	webLabels    = `,"labels":{"app":"web"}`
)

// Which answers are told, and to whom. What a row does not say is a create of default/a in the
// followed namespace.
func TestTellWritesTells(t *testing.T) {
	all, inDefault := "https://server/api/v1/pods", "https://server/api/v1/namespaces/default/pods"
	one := inDefault + "/a"
	for _, tt := range []struct {
		name    string
		follows string // URLs, of one informer each
		accept  string // what these ask for
		method  string
		url     string
		sends   string
		code    int
		header  string
		answer  string
		want    string
	}{
		{name: "create", want: "tell default/a u-a 7"},
		{name: "create in another namespace", url: "https://server/api/v1/namespaces/other/pods", answer: podJSON("other", "a", "7")},
		{name: "the same, for all namespaces", follows: all, url: "https://server/api/v1/namespaces/other/pods", answer: podJSON("other", "a", "7"), want: "tell other/a u-a 7"},
		{name: "two informers", follows: all + " " + inDefault, want: "tell default/a u-a 7; tell default/a u-a 7"},
		{name: "update", method: "PUT", url: one, code: 200, want: "tell default/a u-a 7"},
		{name: "patch", method: "PATCH", url: one + "?fieldManager=x", code: 200, want: "tell default/a u-a 7"},
		{name: "status", method: "PUT", url: one + "/status", code: 200, want: "tell default/a u-a 7"},
		{name: "scale", method: "PUT", url: one + "/scale", code: 200, answer: strings.Replace(podJSON("default", "a", "7"), `"Pod"`, `"Scale"`, 1)},
		{name: "eviction", method: "POST", url: one + "/eviction", answer: success},
		{name: "a proxy", method: "POST", url: one + "/proxy/status"},
		{name: "a path behind a status", method: "PUT", url: one + "/status/x", code: 200},
		{name: "another resource", url: "https://server/api/v1/namespaces/default/secrets"},
		{name: "another version", url: "https://server/apis/x/v2/namespaces/default/pods", follows: "https://server/apis/x/v1/pods"},
		{name: "another server", url: "https://other/api/v1/namespaces/default/pods"},
		{name: "the same prefix", url: "https://server/k8s/one/api/v1/namespaces/default/pods", follows: "https://server/k8s/one/api/v1/pods?watch=1", want: "tell default/a u-a 7"},
		{name: "another prefix", url: "https://server/k8s/two/api/v1/namespaces/default/pods", follows: "https://server/k8s/one/api/v1/pods"},
		{name: "dry run", url: inDefault + "?dryRun=All"},
		{name: "dry run of a delete", method: "DELETE", url: one, code: 200, sends: `{"kind":"DeleteOptions","dryRun":["All"]}`, answer: success},
		{name: "delete", method: "DELETE", url: one, code: 200, sends: `{"kind":"DeleteOptions","propagationPolicy":"Foreground"}`, answer: success, want: "deleted default/a u-a "},
		{name: "delete without a UID", method: "DELETE", url: one, code: 200, answer: strings.Replace(success, `,"uid":"u-a"`, "", 1)},
		{name: "delete, answered with the object", method: "DELETE", url: one, code: 202, want: "tell default/a u-a 7"},
		{name: "delete, answered with the object as it was", method: "DELETE", url: one, code: 200, want: "deleted default/a u-a "},
		{name: "delete without grace", method: "DELETE", url: one, code: 202, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0`), want: "deleted default/a u-a "},
		{name: "delete without grace, with a finalizer", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0,"finalizers":["x/y"]`), want: "tell default/a u-a 7"},
		{name: "delete with grace", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":30`), want: "tell default/a u-a 7"},
		{name: "delete, the grace is not known", method: "DELETE", url: one, code: 200, answer: podJSON("default", "a", "7", marked), want: "tell default/a u-a 7"},
		{name: "an update of what is marked", method: "PUT", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":0`), want: "deleted default/a u-a "},
		{name: "the last finalizer, by a patch", method: "PATCH", url: one, code: 200, answer: podJSON("default", "a", "7", marked), want: "deleted default/a u-a "},
		{name: "the last finalizer, of a status", method: "PUT", url: one + "/status", code: 200, answer: podJSON("default", "a", "7", marked), want: "deleted default/a u-a "},
		{name: "not the last one", method: "PATCH", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"finalizers":["x/y"]`), want: "tell default/a u-a 7"},
		{name: "the last one, with grace left", method: "PATCH", url: one, code: 200, answer: podJSON("default", "a", "7", marked, `,"deletionGracePeriodSeconds":30`), want: "tell default/a u-a 7"},
		{name: "delete of many", method: "DELETE", url: inDefault, code: 200, answer: success},
		{name: "an update answered with a Status", method: "PUT", url: one, code: 200, answer: success},
		{name: "refused", method: "PUT", url: one, code: 409, answer: `{"kind":"Status","status":"Failure"}`},
		{name: "failed", method: "PUT", url: one, code: 500},
		{name: "not modified", method: "PUT", url: one, code: 304},
		{name: "without a version", answer: podJSON("default", "a", "")},
		{name: "of another name", method: "PUT", url: one, code: 200, answer: podJSON("default", "b", "7")},
		{name: "metadata alone", answer: partial("default", "a", "7")},
		{name: "metadata alone, for metadata", accept: metadataType, answer: partial("default", "a", "7"), want: "tell default/a u-a 7"},
		{name: "an object, for metadata", accept: metadataType, want: "tell default/a u-a 7"},
		{name: "metadata alone, left out by labels", follows: all + "?labelSelector=app%3Dweb", method: "PATCH", url: one, code: 200, answer: partial("default", "a", "7"), want: "deleted default/a  7"},
		{name: "metadata alone, the last finalizer", method: "PATCH", url: one, code: 200, answer: partial("default", "a", "7", marked), want: "deleted default/a u-a "},
		{name: "metadata by its type", header: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
		{name: "another encoding", header: "application/yaml"},
		{name: "no JSON", answer: `{"kind":`},
		{name: "selected", follows: all + "?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Da", answer: podJSON("default", "a", "7", webLabels), want: "tell default/a u-a 7"},
		{name: "left out by labels", follows: all + "?labelSelector=app%3Dweb", want: "deleted default/a  7"},
		{name: "left out by name", follows: all + "?fieldSelector=metadata.name%3Db", want: "deleted default/a  7"},
		{name: "one object by its path", follows: one, want: ""},
		{name: "selected by what only the server knows", follows: all + "?fieldSelector=spec.nodeName%3Dn1"},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			var told, sent []string
			code, answer := cmp.Or(tt.code, 201), cmp.Or(tt.answer, podJSON("default", "a", "7"))
			server := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Body != nil {
					body, _ := io.ReadAll(r.Body)
					sent = append(sent, string(body))
				}
				return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {cmp.Or(tt.header, "application/json")}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})
			client := clientgo.TellWrites(&http.Client{Transport: server})
			var tellers []*request.Teller
			do := func(client *http.Client, ctx context.Context, method, url, sends string) {
				r := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, method, url, io.NopCloser(strings.NewReader(sends))))
				r.Header.Set("Accept", tt.accept)
				resp := rig.Must[*http.Response](t)(client.Do(r))
				body, err := io.ReadAll(resp.Body)
				if resp.Body.Close(); err != nil || string(body) != answer {
					t.Errorf("%s: the caller has %q, %v", method, body, err)
				}
			}
			for _, url := range strings.Fields(cmp.Or(tt.follows, inDefault)) {
				tellers = append(tellers, &request.Teller{
					Tell: func(a *request.Answer) error {
						told = append(told, fmt.Sprintf("tell %s/%s %s %s", a.Namespace, a.Name, a.UID, a.ResourceVersion))
						return nil
					},
					TellDeleted: func(key types.NamespacedName, uid types.UID, version string) error {
						told = append(told, fmt.Sprintf("deleted %s %s %s", key, uid, version))
						return nil
					},
				})
				do(client, request.WithTeller(t.Context(), tellers[len(tellers)-1]), "GET", url, "")
			}
			method, url := cmp.Or(tt.method, "POST"), cmp.Or(tt.url, inDefault)
			do(client, t.Context(), method, url, tt.sends)
			rig.Same(t, "told", tt.want, strings.Join(told, "; "))
			rig.Same(t, "the server got", tt.sends, sent[len(sent)-1])
			do(clientgo.TellWrites(&http.Client{Transport: server}, clientgo.Capture(client)), t.Context(), method, url, tt.sends)
			if n := len(strings.Split(tt.want, ";")); tt.want != "" && len(told) != 2*n {
				t.Errorf("another client tells %d of %d", len(told)-n, n)
			}
			for _, teller := range tellers {
				teller.End()
			}
			told = nil
			do(client, t.Context(), method, url, tt.sends)
			rig.Same(t, "an informer that has stopped is told", nil, told)
		})
	}
}

// lateWatches is a transport that tells watches everything late.
type lateWatches struct {
	http.RoundTripper
	single time.Duration // by which lists of single objects are late
}

const watchDelay = 5 * time.Second

func (l *lateWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	switch {
	case err != nil:
	case r.URL.Query().Get("watch") != "":
		resp.Body = rig.Late(resp.Body, watchDelay)
	case r.URL.Query().Get("fieldSelector") != "":
		time.Sleep(l.single)
	}
	return resp, err
}

// A tellServer is a server of pods whose watches are late.
type tellServer struct {
	server *apiserver.Server
	late   lateWatches
	config *rest.Config
	told   *http.Client         // of TellWrites
	own    kubernetes.Interface // writes through told
}

func newTellServer(t *testing.T, accept string) *tellServer {
	t.Helper()
	pods := protoPods
	pods.Status = true
	server, direct := served(t, pods)
	s := &tellServer{server: server, late: lateWatches{RoundTripper: direct.Transport}}
	s.config = &rest.Config{Host: "http://apiserver", Transport: &s.late, ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: accept}}
	s.told = clientgo.TellWrites(clientgo.Capture(rig.Must[*http.Client](t)(rest.HTTPClientFor(s.config))))
	s.own = rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfigAndClient(s.config, s.told))
	return s
}

// A content is an informer of pods, and what it shows.
type content struct {
	lw.AnyInformer
	objects func() map[string]any
}

func contentOf[T lw.Object](src lw.Source[T]) content {
	inf := lw.NewInformer(src, nil)
	return content{inf, func() map[string]any {
		all := map[string]any{}
		for obj := range inf.Store().All() {
			all[obj.GetName()] = obj
		}
		return all
	}}
}

func fromDecoder(example runtime.Object, lister cache.ListerWatcher) content {
	return contentOf(clientgo.Decoder{Trust: true}.Source(lister, example))
}

// informers returns one of each kind.
func (s *tellServer) informers(t *testing.T) map[string]content {
	t.Helper()
	url, gvr := "http://apiserver/api/v1/pods", corev1.SchemeGroupVersion.WithResource("pods")
	kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	untyped := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(s.config, s.told))
	partial := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(s.config, s.told))
	return map[string]content{
		"HTTP":                 contentOf(&lw.HTTP[*corev1.Pod]{URL: url, Client: s.told}),
		"HTTP of a namespace":  contentOf(&lw.HTTP[*corev1.Pod]{URL: "http://apiserver/api/v1/namespaces/default/pods", Client: s.told, Only: lw.Fields{"metadata.labels", "spec"}}),
		"projection":           contentOf(&lw.HTTP[*podPlace]{URL: url, Client: s.told}),
		"HTTP of unstructured": contentOf(&lw.HTTP[*unstructured.Unstructured]{URL: url, Client: s.told}),
		"HTTP of metadata":     contentOf(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url, Client: s.told}),
		"FromClient":           contentOf(lw.FromClient(s.own.CoreV1().Pods(""))),
		"Transform": contentOf(lw.Transform(lw.FromClient(s.own.CoreV1().Pods("")), func(p *corev1.Pod) (*corev1.Pod, error) {
			p.ManagedFields = nil
			return p, nil
		})),
		"Decoder":           fromDecoder(&corev1.Pod{}, listWatchOf(s.own.CoreV1().Pods(""))),
		"Decoder, dynamic":  fromDecoder(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}, listWatchOf(untyped.Resource(gvr))),
		"Decoder, metadata": fromDecoder(&metav1.PartialObjectMetadata{TypeMeta: kind}, listWatchOf(partial.Resource(gvr))),
	}
}

// start runs the informers until the test ends, or stop is called.
func start(t *testing.T, all map[string]content) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, len(all))
	for _, c := range all {
		go func() { _ = c.Run(ctx); done <- struct{}{} }()
	}
	stop = func() {
		cancel()
		for range cap(done) {
			<-done
		}
		time.Sleep(2 * watchDelay) // client-go does not wait for its watches
	}
	for _, c := range all {
		rig.OK(t, c.WaitForSync(ctx))
	}
	return stop
}

// Informers of every kind show what the server has answered when the client returns, long before
// the watch does, and what they show is what they would have listed.
func TestTellWrites(t *testing.T) {
	for name, accept := range map[string]string{"JSON": "application/json", "protobuf": "application/vnd.kubernetes.protobuf,application/json"} {
		rig.Subtest(t, name, func(t *testing.T) {
			s := newTellServer(t, accept)
			pods := s.own.CoreV1().Pods("default")
			all := s.informers(t)
			stop := start(t, all)
			defer stop()
			p := pod("default", "a")
			p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
			ctx := t.Context()
			patch := func(text string) (*corev1.Pod, error) {
				return pods.Patch(ctx, "a", types.MergePatchType, []byte(text), metav1.PatchOptions{})
			}
			steps := []struct {
				name string
				do   func() (*corev1.Pod, error)
			}{
				{"create", func() (*corev1.Pod, error) { return pods.Create(ctx, p, metav1.CreateOptions{}) }},
				{"update", func() (*corev1.Pod, error) {
					p.Spec.NodeName, p.Labels = "n1", map[string]string{"v": "1"}
					return pods.Update(ctx, p, metav1.UpdateOptions{})
				}},
				{"status", func() (*corev1.Pod, error) {
					p.Status.Phase = corev1.PodRunning
					return pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
				}},
				{"patch", func() (*corev1.Pod, error) {
					return patch(`{"metadata":{"labels":{"v":"2"},"finalizers":["example.com/stay"]}}`)
				}},
				{"delete, with a finalizer", func() (*corev1.Pod, error) { return p, pods.Delete(ctx, "a", metav1.DeleteOptions{}) }},
				{"the last finalizer", func() (*corev1.Pod, error) { return patch(`{"metadata":{"finalizers":null,"labels":{"v":"3"}}}`) }},
				{"another", func() (*corev1.Pod, error) { return pods.Create(ctx, pod("default", "b"), metav1.CreateOptions{}) }},
				{"delete", func() (*corev1.Pod, error) { return p, pods.Delete(ctx, "b", metav1.DeleteOptions{}) }},
			}
			for i, step := range steps {
				began := time.Now()
				p = rig.Must[*corev1.Pod](t)(step.do())
				rig.Same(t, step.name+" took", 0, time.Since(began))
				shown := map[string]map[string]any{}
				for name, c := range all {
					shown[name] = c.objects()
					if n := len(shown[name]); n != 1 && i < 5 || n != 0 && (i == 5 || i == len(steps)-1) || n != 1 && i == len(steps)-2 {
						t.Errorf("%s: %s shows %d pods", step.name, name, n)
					}
				}
				if i == 4 {
					continue
				}
				fresh := s.informers(t)
				stopFresh := start(t, fresh)
				for name, c := range fresh {
					want := c.objects()
					for key, obj := range shown[name] { // a server in memory does not fill in what is empty
						if u, ok := obj.(*unstructured.Unstructured); ok {
							if status, _, _ := unstructured.NestedMap(u.Object, "status"); len(status) == 0 {
								u = u.DeepCopy() // readers share it
								delete(u.Object, "status")
								shown[name][key] = u
							}
						}
					}
					rig.Same(t, step.name+": "+name+", listed and told", want, shown[name])
				}
				stopFresh()
			}
			time.Sleep(3 * watchDelay)
			for name, c := range all {
				if n := len(c.objects()); n > 0 || c.Status().Ahead > 0 {
					t.Errorf("at the end %s shows %d pods, %d ahead", name, n, c.Status().Ahead)
				}
			}
		})
	}
}

// Informers that ask for single objects are told of the others as ever: after an outage they ask
// for their newest one, to know whether the server is the same, and Wanted for what becomes wanted.
func TestTellWritesDuringOtherRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTellServer(t, "application/json")
		keys := new(lw.KeySet)
		keys.Set("test", lw.Key{Namespace: "default", Name: "a"}, lw.Key{Namespace: "default", Name: "b"}, lw.Key{Namespace: "default", Name: "c"})
		all := s.informers(t)
		all["Wanted"] = contentOf(lw.Wanted[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: "http://apiserver/api/v1/pods", Client: s.told}, keys))
		defer start(t, all)()
		create := func(name string) {
			t.Helper()
			rig.Must[*corev1.Pod](t)(s.own.CoreV1().Pods("default").Create(t.Context(), pod("default", name), metav1.CreateOptions{}))
			for of, c := range all {
				rig.Same(t, of+" shows "+name, true, c.objects()[name] != nil)
			}
		}
		create("a")
		time.Sleep(3 * watchDelay)
		s.late.single = time.Hour
		keys.Set("another", lw.Key{Namespace: "default", Name: "d"})
		time.Sleep(time.Second)
		create("b")
		s.server.SetDown(true)
		time.Sleep(time.Minute)
		s.server.SetDown(false)
		time.Sleep(time.Minute)
		create("c")
		s.late.single = 0
	})
}

// What is remembered of a write of the program, once somebody asks for that: who made it, of which
// version, and whether it is a create. What changes nothing is nobody's write.
func TestTellWritesRemembers(t *testing.T) {
	request.RememberOwn() // for the tests that follow, too
	const all = "https://server/api/v1/namespaces/default/pods"
	const one, apply, merge = all + "/a", "application/apply-patch+yaml", "application/merge-patch+json"
	at5 := podJSON("default", "a", "5")
	proto := func(version string) string {
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u-a", ResourceVersion: version}}
		var b strings.Builder
		rig.OK(t, protobuf.NewSerializer(nil, nil).Encode(p, &b))
		return b.String()
	}
	type known struct {
		Base, Manager string
		Create        bool
	}
	for _, tt := range []struct {
		name, method, url, content, sends, answer string
		version                                   string // by which it is known
		want                                      *known
	}{
		{name: "create", method: "POST", url: all, sends: at5, version: "7", want: &known{"", "agent", true}},
		{name: "update", method: "PUT", url: one, sends: at5, version: "7", want: &known{"5", "agent", false}},
		{name: "status", method: "PUT", url: one + "/status", sends: at5,
			version: "7", want: &known{"5", "agent", false}},
		{name: "a manager", method: "PUT", url: one + "?fieldManager=me", sends: at5,
			version: "7", want: &known{"5", "me", false}},
		{name: "protobuf", method: "PUT", url: one, content: "application/vnd.kubernetes.protobuf", sends: proto("5"),
			version: "7", want: &known{"5", "agent", false}},
		{name: "of any version", method: "PUT", url: one, sends: podJSON("default", "a", ""),
			version: "7", want: &known{"", "agent", false}},
		{name: "an encoding that lw does not know", method: "PUT", url: one, content: "application/yaml", sends: at5,
			version: "7", want: &known{"", "agent", false}},
		{name: "patch", method: "PATCH", url: one, content: merge, sends: `{"spec":{}}`,
			version: "7", want: &known{"", "agent", false}},
		{name: "patch of a version", method: "PATCH", url: one, content: merge, sends: `{"metadata":{"resourceVersion":"5"}}`,
			version: "7", want: &known{"5", "agent", false}},
		{name: "apply", method: "PATCH", url: one + "?fieldManager=me", content: apply, sends: "kind: Pod\n",
			version: "7", want: &known{"", "me", false}},
		{name: "delete", method: "DELETE", url: one, sends: `{"kind":"DeleteOptions"}`, answer: success,
			want: &known{"", "agent", false}},
		{name: "nothing changes", method: "PUT", url: one, sends: podJSON("default", "a", "7"), version: "7"},
		{name: "another version", method: "PUT", url: one, sends: at5, version: "8"},
		{name: "a Status", method: "POST", url: one + "/eviction", sends: "{}", answer: success},
	} {
		rig.Subtest(t, tt.name, func(t *testing.T) {
			uid := "u-" + types.UID(strings.ReplaceAll(tt.name, " ", "-"))
			answer := strings.ReplaceAll(cmp.Or(tt.answer, podJSON("default", "a", "7")), `"u-a"`, fmt.Sprintf("%q", uid))
			client := clientgo.TellWrites(&http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				got := string(rig.Must[[]byte](t)(io.ReadAll(cmp.Or[io.Reader](r.Body, http.NoBody))))
				if r.Method == tt.method && got != tt.sends {
					t.Errorf("the server got %q", got)
				}
				header := http.Header{"Content-Type": {"application/json"}}
				return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})})
			do := func(ctx context.Context, method, url, sends string) {
				r := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, method, url, io.NopCloser(strings.NewReader(sends))))
				r.Header.Set("User-Agent", "agent/v1 (linux)")
				r.Header.Set("Content-Type", cmp.Or(tt.content, "application/json"))
				rig.OK(t, rig.Must[*http.Response](t)(client.Do(r)).Body.Close())
			}
			teller := &request.Teller{Tell: func(*request.Answer) error { return nil },
				TellDeleted: func(types.NamespacedName, types.UID, string) error { return nil }}
			do(request.WithTeller(t.Context(), teller), "GET", all, "")
			do(t.Context(), tt.method, tt.url, tt.sends)
			var got *known
			if own, ok := request.OwnOf(uid, tt.version); ok {
				got = &known{own.Base, own.Manager, own.Create}
			}
			rig.Same(t, "it is known", tt.want, got)
			teller.End()
			if _, ok := request.OwnOf(uid, tt.version); ok {
				t.Error("it is known although nobody follows")
			}
		})
	}
}
