package derive

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/bench/internal/pods"
)

const (
	// namespaces is the number of namespaces, however many pods there are.
	namespaces = 20
	// nodes is the number of nodes, however many pods there are.
	nodes = 200
	// podsOfService is the number of pods that a service selects.
	podsOfService = 10
	// fenced is the namespace, service and node of the one pod that only fences have.
	fenced = "fence"
)

// A world is a cluster of pods and services, with the newest version of each pod. Every pod has
// five labels of its own map. A service selects by two of them: one that its pods alone have in
// their namespace, and one that all pods have.
type world struct {
	pods     []*corev1.Pod
	services []*corev1.Service
	fence    *corev1.Pod
	order    []int // the pods in the order in which they are changed
	writes   int   // since the list, of all pods
}

// newWorld returns a world with n pods, and the pod and the service of the fence. n is a multiple
// of 200, so that all namespaces have as many services, and not 200, so that they have more than
// one.
func newWorld(n int) *world {
	w := &world{order: spread(n)}
	for i := range n {
		w.pods = append(w.pods, newPod(i))
	}
	for i := range n / podsOfService {
		w.services = append(w.services, newService(namespaceOf(i), appOf(i)))
	}
	w.services = append(w.services, newService(fenced, fenced))
	w.fence = newPod(n)
	w.fence.Namespace, w.fence.Spec.NodeName, w.fence.Labels["app"] = fenced, fenced, fenced
	return w
}

// spread returns the numbers of n pods in an order in which a hundred in a row are of as many
// services and nodes, and are not neighbours.
func spread(n int) (order []int) {
	services := n / podsOfService
	for k := range podsOfService {
		for j := range services {
			order = append(order, j*37%services*podsOfService+k)
		}
	}
	return order
}

// list returns all pods, and the version of that list.
func (w *world) list() ([]*corev1.Pod, string) {
	return append([]*corev1.Pod{w.fence}, w.pods...), pods.Version(len(w.pods))
}

// version returns the version of the last write.
func (w *world) version() string { return pods.Version(len(w.pods) + w.writes) }

// A change returns the next version of pod i, without its resource version.
type change func(w *world, i int) *corev1.Pod

// next returns the versions that the next n changes make, each of another pod. n is at most the
// number of pods.
func (w *world) next(n int, c change) []*corev1.Pod {
	changed := make([]*corev1.Pod, n)
	for k := range changed {
		i := w.order[k]
		p := c(w, i)
		w.writes++
		p.ResourceVersion = w.version()
		w.pods[i], changed[k] = p, p
	}
	// The next changes are those of other pods, if there are any.
	w.order = append(w.order[n:len(w.order):len(w.order)], w.order[:n]...)
	return changed
}

// passFence returns the next version of the fence's pod, whose readiness is another.
func (w *world) passFence() *corev1.Pod {
	w.fence = flipped(w.fence)
	w.writes++
	w.fence.ResourceVersion = w.version()
	return w.fence
}

// heartbeat is a change of which no collection shows anything.
func heartbeat(w *world, i int) *corev1.Pod {
	p := new(corev1.Pod)
	*p = *w.pods[i]
	p.Annotations = map[string]string{"heartbeat": p.ResourceVersion}
	return p
}

// flip makes a pod ready that is not, and the other way round.
func flip(w *world, i int) *corev1.Pod { return flipped(w.pods[i]) }

func flipped(pod *corev1.Pod) *corev1.Pod {
	p := new(corev1.Pod)
	*p = *pod
	status := corev1.ConditionTrue
	if isReady(pod) {
		status = corev1.ConditionFalse
	}
	p.Status.Conditions = conditions(status)
	return p
}

// move gives a pod the labels of another service of its namespace, and the next time those that it
// had.
func move(w *world, i int) *corev1.Pod {
	p := new(corev1.Pod)
	*p = *w.pods[i]
	home := i / podsOfService
	next := home
	if p.Labels["app"] == appOf(home) {
		next = (home + namespaces) % (len(w.pods) / podsOfService)
	}
	p.Labels = maps.Clone(p.Labels)
	p.Labels["app"] = appOf(next)
	return p
}

// unselected is a change of a pod that no service selects by any of its labels.
func unselected(w *world, i int) *corev1.Pod {
	p := heartbeat(w, i)
	p.Labels = map[string]string{"app": "none", "version": "v1"}
	return p
}

func appOf(service int) string { return fmt.Sprintf("app-%04d", service) }

func namespaceOf(service int) string { return fmt.Sprintf("namespace-%02d", service%namespaces) }

// newPod returns pod i, which is ready. All its strings are its own.
func newPod(i int) *corev1.Pod {
	service := i / podsOfService
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespaceOf(service),
			Name:            fmt.Sprintf("app-6d4b75cb6d-%07d", i),
			UID:             types.UID(fmt.Sprintf("5f2c1f5e-8f0b-4a3e-9d5c-%012d", i)),
			ResourceVersion: pods.Version(i),
			Labels: map[string]string{
				"app": appOf(service), "tier": "web", "version": "v1", "team": fmt.Sprintf("team-%d", service%7),
				"pod-template-hash": fmt.Sprintf("6d4b75%04d", service),
			},
		},
		Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%03d", (service+13*(i%podsOfService))%nodes)},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff),
			Conditions: conditions(corev1.ConditionTrue),
		},
	}
}

// conditions returns those of a pod that is ready or not.
func conditions(ready corev1.ConditionStatus) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: ready},
		{Type: corev1.ContainersReady, Status: ready},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
}

func newService(namespace, app string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app, UID: types.UID("service-" + app),
			ResourceVersion: "1"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app, "tier": "web"}},
	}
}
