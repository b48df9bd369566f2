package clientgo_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// What docs/memory.md keeps of a pod.
func TestMemoryPage(t *testing.T) {
	type place struct {
		lw.Meta
		Node string
	}
	projected := func(url string, client *http.Client) func() (lw.AnyInformer, func() []string) {
		return func() (lw.AnyInformer, func() []string) {
			type podPlace struct {
				lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
				Spec    struct {
					NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
				} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
				Status struct {
					Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
					PodIP string          `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
				} `json:"status" protobuf:"bytes,3,opt,name=status"`
			}
			places := lw.NewInformer(&lw.HTTP[*podPlace]{URL: url, Client: client}, nil)
			lwtest.Projection[*podPlace, *corev1.Pod](t)
			return places, func() (got []string) {
				for p := range places.Store().All() {
					got = append(got, lw.KeyOf(p).String(), p.Spec.NodeName, p.Status.PodIP, string(p.Status.Phase))
				}
				return got
			}
		}
	}
	transformed := func(src lw.Source[*corev1.Pod]) func() (lw.AnyInformer, func() []string) {
		return func() (lw.AnyInformer, func() []string) {
			toPlace := func(p *corev1.Pod) (*place, error) {
				return &place{Meta: lw.MetaOf(p), Node: p.Spec.NodeName}, nil
			}
			byNode := lw.NewInformer(lw.Transform(src, toPlace), nil)
			return byNode, func() (got []string) {
				for p := range byNode.Store().All() {
					got = append(got, lw.KeyOf(p).String(), p.Node)
				}
				return got
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "pods", Kind: "Pod", Proto: apiserver.Proto[corev1.Pod]()}}})
		client := server.Client()
		t.Cleanup(func() { server.Close(); client.CloseIdleConnections() })
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
			Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{PodIP: "10.0.0.1", Phase: corev1.PodRunning},
		}
		rig.Must[apiserver.Object](t)(server.Collection("pods").Create(pod))
		const url = "http://server/api/v1/pods"
		for _, tc := range []struct {
			informer func() (lw.AnyInformer, func() []string)
			want     []string
		}{
			{projected(url, client), []string{"default/a", "n1", "10.0.0.1", "Running"}},
			{transformed(&lw.HTTP[*corev1.Pod]{URL: url, Client: client}), []string{"default/a", "n1"}},
		} {
			inf, kept := tc.informer()
			go inf.Run(t.Context())
			rig.OK(t, inf.WaitForSync(t.Context()))
			if diff := cmp.Diff(tc.want, kept()); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		}
	})
}

// The two ways of docs/migrate.md into client-go's interfaces.
func TestMigrationPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset(pod("default", "web"))
		factory := informers.NewSharedInformerFactory(clientset, 0)
		pods := lw.NewInformer(lw.FromClient(clientset.CoreV1().Pods("")), nil)
		clientgo.Use(factory, pods) // before anybody asks the factory for pods
		lister := factory.Core().V1().Pods().Lister()

		factory.StartWithContext(t.Context())
		factory.WaitForCacheSyncWithContext(t.Context())
		if got, err := lister.Pods("default").Get("web"); err != nil || got.Name != "web" {
			t.Errorf("the lister has %v, error %v", got, err)
		}
		if _, ok := pods.Store().Get(lw.Key{Namespace: "default", Name: "web"}); !ok {
			t.Error("lw's own informer does not have it")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		listerWatcher := listerWatcher(fake.NewClientset(pod("default", "web")))
		pods := clientgo.NewInformer(listerWatcher, &corev1.Pod{}, 0, cache.Indexers{})

		go pods.RunWithContext(t.Context())
		cache.WaitFor(t.Context(), "", pods.HasSyncedChecker())
		if got := pods.GetStore().ListKeys(); len(got) != 1 || got[0] != "default/web" {
			t.Errorf("the store has %v", got)
		}
	})
}

// The client of client-go that docs/test.md makes for a server of lwtest.
func TestTestingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "pods", Kind: "Pod"})
		config := &rest.Config{
			Host: server.URL(), Transport: server.Client().Transport,
			ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod("default", "a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) != 1 {
			t.Errorf("%v, %v", pods, err)
		}
	})
}
