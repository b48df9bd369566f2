package stress

import (
	"encoding/json"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/go-lw/lw"
)

// A kind is what objects are encoded from, and what they are decoded into.
type kind struct {
	name, version string
	from, into    reflect.Type
	protobuf      bool
	// projected says that into has no Unmarshal: what it is in protobuf is what it is in the JSON of
	// the whole object.
	projected bool
}

func of[From, Into any](name, version string, protobuf, projected bool) kind {
	return kind{name, version, reflect.TypeFor[From](), reflect.TypeFor[Into](), protobuf, projected}
}

var kinds = []kind{
	of[corev1.Pod, corev1.Pod]("Pod", "v1", true, false),
	of[corev1.ConfigMap, corev1.ConfigMap]("ConfigMap", "v1", true, false),
	of[corev1.Secret, corev1.Secret]("Secret", "v1", true, false),
	of[corev1.Node, corev1.Node]("Node", "v1", true, false),
	of[corev1.Service, corev1.Service]("Service", "v1", true, false),
	of[appsv1.Deployment, appsv1.Deployment]("Deployment", "apps/v1", true, false),
	of[appsv1.ControllerRevision, appsv1.ControllerRevision]("ControllerRevision", "apps/v1", true, false),
	of[discoveryv1.EndpointSlice, discoveryv1.EndpointSlice]("EndpointSlice", "discovery.k8s.io/v1", true, false),
	of[eventsv1.Event, eventsv1.Event]("Event", "events.k8s.io/v1", true, false),
	of[corev1.Event, corev1.Event]("Event", "v1", true, false),
	of[coordinationv1.Lease, coordinationv1.Lease]("Lease", "coordination.k8s.io/v1", true, false),
	of[networkingv1.Ingress, networkingv1.Ingress]("Ingress", "networking.k8s.io/v1", true, false),
	of[corev1.Pod, podLoad]("Pod", "v1", true, true),
	of[corev1.Pod, podPlace]("Pod", "v1", true, true),
	of[corev1.Pod, metav1.PartialObjectMetadata]("Pod", "v1", true, true),
	of[custom, custom]("Custom", "example.com/v1", false, false),
	of[custom, unstructured.Unstructured]("Custom", "example.com/v1", false, false),
	of[corev1.Pod, unstructured.Unstructured]("Pod", "v1", false, false),
}

// A custom resource has what API types have, and what they hardly have.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              everything  `json:"spec"`
	Status            *everything `json:"status,omitempty"`
}

func (c *custom) DeepCopyObject() runtime.Object { return clone(c).(*custom) }

type everything struct {
	Labels    map[string][]string          `json:"labels,omitempty"`
	Resources map[string]resource.Quantity `json:"resources,omitempty"`
	Quantity  resource.Quantity            `json:"quantity"`
	QuantityP *resource.Quantity           `json:"quantityP,omitempty"`
	Port      intstr.IntOrString           `json:"port"`
	PortP     *intstr.IntOrString          `json:"portP,omitempty"`
	Ext       runtime.RawExtension         `json:"ext"`
	Flag      *bool                        `json:"flag,omitempty"`
	Number    *int64                       `json:"number,omitempty"`
	Float     float64                      `json:"float"`
	Small     uint8                        `json:"small"`
	Short     int16                        `json:"short,omitempty"`
	Time      metav1.Time                  `json:"time"`
	TimeP     *metav1.Time                 `json:"timeP,omitempty"`
	Micro     metav1.MicroTime             `json:"micro"`
	Duration  metav1.Duration              `json:"duration"`
	Bytes     []byte                       `json:"bytes"`
	Kids      []everything                 `json:"kids"`
	KidsP     []*everything                `json:"kidsP,omitempty"`
	Self      *everything                  `json:"self,omitempty"`
	By        map[string]everything        `json:"by,omitempty"`
	ByP       map[string]*everything       `json:"byP,omitempty"`
	Strings   []string                     `json:"strings"`
	Raw       json.RawMessage              `json:"raw,omitempty"`
	Any       map[string]any               `json:"any,omitempty"`
	Embedded
	*EmbeddedP
}

type Embedded struct {
	One  string   `json:"one"`
	Many []string `json:"many,omitempty"`
}

type EmbeddedP struct {
	OneP  string            `json:"oneP,omitempty"`
	MapP  map[string]string `json:"mapP,omitempty"`
	ManyP []Embedded        `json:"manyP,omitempty"`
}

// podLoad is a projection with most that a projection may have.
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
		} `json:"containers" protobuf:"bytes,2,rep,name=containers"`
		Tolerations []corev1.Toleration `json:"tolerations" protobuf:"bytes,22,opt,name=tolerations"`
		Grace       *int64              `json:"terminationGracePeriodSeconds" protobuf:"varint,4,opt,name=terminationGracePeriodSeconds"`
		HostNetwork bool                `json:"hostNetwork" protobuf:"varint,11,opt,name=hostNetwork"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		StartTime         *metav1.Time             `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
		ContainerStatuses []corev1.ContainerStatus `json:"containerStatuses" protobuf:"bytes,8,rep,name=containerStatuses"`
		PodIPs            []struct {
			IP string `json:"ip" protobuf:"bytes,1,opt,name=ip"`
		} `json:"podIPs" protobuf:"bytes,12,rep,name=podIPs"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// podPlace is a projection that has little.
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
