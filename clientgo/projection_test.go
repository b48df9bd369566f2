package clientgo_test

import (
	"encoding/binary"
	"encoding/json"
	"math/rand"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/rig"
	"github.com/go-lw/lw/lwtest"
)

// A podPlace is the smallest of the projections, and what most are.
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

// A podLoad has quantities, ports, times and types of the API.
type podLoad struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Spec              struct {
		Containers []*struct {
			Name      string `json:"name" protobuf:"bytes,1,opt,name=name"`
			Resources struct {
				Limits   map[string]resource.Quantity `json:"limits" protobuf:"bytes,1,rep,name=limits"`
				Requests corev1.ResourceList          `json:"requests" protobuf:"bytes,2,rep,name=requests"`
			} `json:"resources" protobuf:"bytes,8,opt,name=resources"`
			LivenessProbe *struct {
				corev1.ProbeHandler `json:",inline" protobuf:"bytes,1,opt,name=handler"`
				PeriodSeconds       int32 `json:"periodSeconds" protobuf:"varint,4,opt,name=periodSeconds"`
			} `json:"livenessProbe" protobuf:"bytes,10,opt,name=livenessProbe"`
			ReadinessProbe struct {
				handler `protobuf:"bytes,1,opt,name=handler"`
			} `json:"readinessProbe" protobuf:"bytes,11,opt,name=readinessProbe"`
		} `json:"containers" protobuf:"bytes,2,rep,name=containers"`
		Tolerations []corev1.Toleration  `json:"tolerations" protobuf:"bytes,22,opt,name=tolerations"`
		Grace       *int64               `json:"terminationGracePeriodSeconds" protobuf:"varint,4,opt,name=terminationGracePeriodSeconds"`
		HostNetwork bool                 `json:"hostNetwork" protobuf:"varint,11,opt,name=hostNetwork"`
		Affinity    *corev1.NodeAffinity `json:"-"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		StartTime         *metav1.Time             `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
		ContainerStatuses []corev1.ContainerStatus `json:"containerStatuses" protobuf:"bytes,8,rep,name=containerStatuses"`
		PodIPs            []struct {
			IP string `json:"ip" protobuf:"bytes,1,opt,name=ip"`
		} `json:"podIPs" protobuf:"bytes,12,rep,name=podIPs"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A handler is a ProbeHandler of which one field is of interest.
type handler struct {
	HTTPGet *struct {
		Path string             `json:"path" protobuf:"bytes,1,opt,name=path"`
		Port intstr.IntOrString `json:"port" protobuf:"bytes,2,opt,name=port"`
	} `json:"httpGet" protobuf:"bytes,2,opt,name=httpGet"`
}

// A rollout has an IntOrString whose tag in the API says varint.
type rollout struct {
	Metadata struct {
		lw.Meta
		Owners []metav1.OwnerReference `json:"ownerReferences" protobuf:"bytes,13,rep,name=ownerReferences"`
		Made   metav1.Time             `json:"creationTimestamp" protobuf:"bytes,8,opt,name=creationTimestamp"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec struct {
		Strategy struct {
			Rolling *struct {
				MaxUnavailable *intstr.IntOrString `json:"maxUnavailable" protobuf:"varint,2,opt,name=maxUnavailable"`
			} `json:"rollingUpdate" protobuf:"bytes,2,opt,name=rollingUpdate"`
		} `json:"updateStrategy" protobuf:"bytes,7,opt,name=updateStrategy"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

func TestProjections(t *testing.T) {
	t.Run("podPlace", checkProjection[podPlace, corev1.Pod])
	t.Run("podLoad", checkProjection[podLoad, corev1.Pod])
	t.Run("rollout", checkProjection[rollout, appsv1.StatefulSet])
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// checkProjection compares what lw decodes of random objects into P, from protobuf and from JSON, with what apimachinery decodes of
// their JSON.
func checkProjection[P, T any](t *testing.T) {
	lwtest.Projection[P, T](t)
	const objects, seed = 60, 1
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme))
	for n := range 4 {
		d := rig.Must[*decode.Decoder](t)(decode.New(reflect.TypeFor[*P](), decode.Options{Share: n%2 == 1}))
		r := reader{Decoder: d}
		if n >= 2 {
			d.ReuseFrom(func(string, string) any { return r.last })
		}
		for range objects {
			full := new(T)
			fill.Fill(full)
			raw := rig.Must[[]byte](t)(any(full).(message).Marshal())
			// An empty list is none in protobuf.
			full = new(T)
			rig.OK(t, any(full).(message).Unmarshal(raw))
			text := rig.Must[[]byte](t)(json.Marshal(full))
			want := new(P)
			rig.OK(t, json.Unmarshal(text, want))
			envelope := rig.Must[[]byte](t)((&runtime.Unknown{Raw: raw}).Marshal())
			event := rig.Must[[]byte](t)((&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), envelope...)}}).Marshal())
			r.same(t, append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...), decode.Protobuf, want, nil)
			r.same(t, []byte(`{"type":"ADDED","object":`+string(text)+"}\n"), decode.JSON, want, nil)
			if t.Failed() {
				return
			}
		}
	}
}

// An informer of a projection asks its server for protobuf, gets it, and keeps what the pods have.
func TestProjectionInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: "pods", Kind: "Pod", Proto: apiserver.Proto[corev1.Pod]()}}})
		client := server.Client()
		t.Cleanup(func() { server.Close(); client.CloseIdleConnections() })
		types := &contentTypes{next: client.Transport}
		client.Transport = types
		pods := server.Collection("pods")
		place := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
			p := pod("default", name)
			p.Spec.NodeName, p.Status.Phase, p.Status.PodIP = node, phase, "10.0.0.1"
			return p
		}
		rig.Must[apiserver.Object](t)(pods.Create(place("a", "n1", corev1.PodPending)))
		inf := lw.NewInformer(&lw.HTTP[*podPlace]{URL: "http://server/api/v1/pods", Client: client}, nil)
		byNode := lw.NewIndex(inf, func(p *podPlace) string { return p.Spec.NodeName })
		go inf.Run(t.Context())
		rig.OK(t, inf.WaitForSync(t.Context()))
		rig.Must[apiserver.Object](t)(pods.Create(place("b", "n2", corev1.PodPending)))
		rig.Must[apiserver.Object](t)(pods.Update(place("a", "n1", corev1.PodRunning)))
		time.Sleep(time.Minute)
		var got []string
		for p := range inf.Store().All() {
			got = append(got, strings.Join([]string{lw.KeyOf(p).String(), p.Spec.NodeName, string(p.Status.Phase), p.Status.PodIP}, " "))
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"default/a n1 Running 10.0.0.1", "default/b n2 Pending 10.0.0.1"}, got); diff != "" || byNode.Len("n1") != 1 {
			t.Errorf("%d pods on n1 (-want +got):\n%s", byNode.Len("n1"), diff)
		}
		if all := types.seen(); len(all) == 0 || slices.ContainsFunc(all, func(s string) bool { return !strings.HasPrefix(s, "application/vnd.kubernetes.protobuf") }) {
			t.Errorf("the server answered in %q", all)
		}
	})
}

// contentTypes notes the content types of all responses.
type contentTypes struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []string
}

func (c *contentTypes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.mu.Lock()
		c.all = append(c.all, resp.Header.Get("Content-Type"))
		c.mu.Unlock()
	}
	return resp, err
}

func (c *contentTypes) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}
