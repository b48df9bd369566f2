package cluster

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// Fate is the annotation that says what becomes of a Pod, if a template or a test has set it: its
// value is one of the phases. A Pod that is to be Pending is never started, one that is Running
// never ends. Without it a Pod whose owner is a Job succeeds, and all others run.
const Fate = "simulate.lw/fate"

// runs is how long a Pod runs that ends.
const runs = 10 * time.Second

// all returns the objects of a resource in the order of their keys.
func all[T lw.Object](s *lwtest.Server, plural string) []T {
	return slices.Collect(lwtest.Objects[T](s, plural).All())
}

// update writes an object and says what it is now. That somebody else has refused it, as a webhook
// may, is no error of an actor: it tries again when something has changed.
func update[T lw.Object](s *lwtest.Server, plural string, obj T, did string) (string, error) {
	_, err := lwtest.Objects[T](s, plural).Update(obj)
	return done(did, err)
}

func done(did string, err error) (string, error) {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	return did, err
}

func keyOf(o metav1.Object) lw.Key { return lw.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

func now() metav1.Time { return metav1.NewTime(time.Now().Truncate(time.Second)) }

// suffix returns five letters that depend on the words alone.
func suffix(words ...any) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	h := fnv.New64a()
	fmt.Fprintln(h, words...)
	sum, b := h.Sum64(), make([]byte, 5)
	for i := range b {
		b[i], sum = letters[sum%uint64(len(letters))], sum/uint64(len(letters))
	}
	return string(b)
}

// Pods are the scheduler and the kubelets. A Pod is put on the first node that has its labels, that
// its required node affinity allows and whose taints it tolerates, or on "node" if there are no
// nodes, unless it names a scheduler of its own; waits for its volume claims; runs; becomes ready;
// ends as its [Fate] says; and is gone after its deletion as soon as a kubelet sees that.
func Pods(_ context.Context, s *lwtest.Server) (did string, err error) {
	pods := lwtest.Objects[*corev1.Pod](s, "pods")
	for _, pod := range all[*corev1.Pod](s, "pods") {
		fate := corev1.PodPhase(pod.Annotations[Fate])
		if fate == "" && ownedBy(pod, "Job") {
			fate = corev1.PodSucceeded
		}
		switch phase := pod.Status.Phase; {
		case pod.DeletionTimestamp != nil:
			if n := pod.DeletionGracePeriodSeconds; n != nil && *n == 0 {
				continue // it waits for its finalizers
			}
			return done(fmt.Sprintf("pod %s is gone from its node", keyOf(pod)), pods.Delete(keyOf(pod)))
		case pod.Spec.NodeName == "":
			if fate == corev1.PodPending || !schedule(s, pod) {
				continue
			}
			return update(s, "pods", pod, fmt.Sprintf("pod %s is put on %s", keyOf(pod), cmp.Or(pod.Spec.NodeName, "no node")))
		case phase == corev1.PodSucceeded || phase == corev1.PodFailed:
		case condition(&pod.Status, corev1.PodScheduled, true): // who made it has put it on its node, or another scheduler
			return update(s, "pods", pod, fmt.Sprintf("pod %s is scheduled on %s", keyOf(pod), pod.Spec.NodeName))
		case phase != corev1.PodRunning:
			if !claimsBound(s, pod) {
				continue
			}
			start(pod)
			return update(s, "pods", pod, fmt.Sprintf("pod %s runs", keyOf(pod)))
		case !ready(pod):
			condition(&pod.Status, corev1.ContainersReady, true)
			condition(&pod.Status, corev1.PodReady, true)
			containers(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *pod.Status.StartTime}},
				true)
			return update(s, "pods", pod, fmt.Sprintf("pod %s is ready", keyOf(pod)))
		case fate != corev1.PodSucceeded && fate != corev1.PodFailed || time.Since(pod.Status.StartTime.Time) < runs:
		default:
			end(pod, fate)
			return update(s, "pods", pod, fmt.Sprintf("pod %s has %s", keyOf(pod), fate))
		}
	}
	return "", nil
}

// schedule puts a Pod on a node, or says that none fits. It reports whether that changes the Pod.
func schedule(s *lwtest.Server, pod *corev1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 || pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return false
	}
	pod.Spec.NodeName = nodeFor(s, pod)
	return condition(&pod.Status, corev1.PodScheduled, pod.Spec.NodeName != "") || pod.Spec.NodeName != ""
}

// start has a Pod run.
func start(pod *corev1.Pod) {
	start := now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &start
	pod.Status.PodIP = fmt.Sprintf("10.0.%d.%d", fnvOf(string(pod.UID))>>8%250, 1+fnvOf(string(pod.UID))%250)
	pod.Status.PodIPs, pod.Status.HostIP = []corev1.PodIP{{IP: pod.Status.PodIP}}, "192.168.0.1"
	condition(&pod.Status, corev1.PodInitialized, true)
	containers(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: start}}, false)
}

// end has a Pod that runs end as fate says.
func end(pod *corev1.Pod, fate corev1.PodPhase) {
	ended := corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: *pod.Status.StartTime, FinishedAt: now()}
	if pod.Status.Phase = fate; fate == corev1.PodFailed {
		ended.Reason, ended.ExitCode = "Error", 1
	}
	condition(&pod.Status, corev1.ContainersReady, false)
	condition(&pod.Status, corev1.PodReady, false)
	containers(pod, corev1.ContainerState{Terminated: &ended}, false)
}

func fnvOf(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

func containers(pod *corev1.Pod, state corev1.ContainerState, ready bool) {
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		started := state.Running != nil
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "simulate://" + c.Name, State: state, Ready: ready,
			Started: &started,
		})
	}
}

// condition reports whether that changes the condition.
func condition(s *corev1.PodStatus, t corev1.PodConditionType, is bool) bool {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, LastTransitionTime: now()}
	if is {
		c.Status = corev1.ConditionTrue
	} else if t == corev1.PodScheduled {
		c.Reason = corev1.PodReasonUnschedulable
	}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	switch {
	case i < 0:
		s.Conditions = append(s.Conditions, c)
	case s.Conditions[i].Status != c.Status:
		s.Conditions[i] = c
	default:
		return false
	}
	return true
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func ownedBy(o metav1.Object, kind string) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && ref.Kind == kind
}

// owned returns the Pods that an owner controls.
func owned(s *lwtest.Server, uid types.UID) (pods []*corev1.Pod) {
	for _, pod := range all[*corev1.Pod](s, "pods") {
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.UID == uid {
			pods = append(pods, pod)
		}
	}
	return pods
}

// nodeFor returns the node for a Pod; "": none fits.
func nodeFor(s *lwtest.Server, pod *corev1.Pod) string {
	nodes := all[*corev1.Node](s, "nodes")
	if len(nodes) == 0 {
		return "node"
	}
	for _, n := range nodes {
		if n.DeletionTimestamp == nil && tolerates(pod, n) && wants(pod, n) {
			return n.Name
		}
	}
	return ""
}

// tolerates reports whether a Pod tolerates the taints of a node that keep it off. One that is
// unschedulable has a taint for that, which a cluster would add.
func tolerates(pod *corev1.Pod, n *corev1.Node) bool {
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append(slices.Clone(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable,
			Effect: corev1.TaintEffectNoSchedule})
	}
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations,
			func(o corev1.Toleration) bool {
				exists := o.Operator == corev1.TolerationOpExists
				return (o.Key == t.Key || o.Key == "" && exists) && (o.Effect == t.Effect || o.Effect == "") &&
					(o.Value == t.Value || exists)
			})
	})
}

// wants reports whether a Pod may be on a node by its node selector and its required node affinity.
func wants(pod *corev1.Pod, n *corev1.Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	fields := labels.Set{metav1.ObjectNameField: n.Name}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms,
		func(t corev1.NodeSelectorTerm) bool {
			return len(t.MatchExpressions)+len(t.MatchFields) > 0 && matches(t.MatchExpressions, n.Labels) &&
				matches(t.MatchFields, fields)
		})
}

func matches(all []corev1.NodeSelectorRequirement, of labels.Set) bool {
	return !slices.ContainsFunc(all, func(r corev1.NodeSelectorRequirement) bool {
		op := map[corev1.NodeSelectorOperator]selection.Operator{
			corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
			corev1.NodeSelectorOpExists:       selection.Exists,
			corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
			corev1.NodeSelectorOpLt: selection.LessThan,
		}[r.Operator]
		want, err := labels.NewRequirement(r.Key, op, r.Values)
		return err != nil || !want.Matches(of)
	})
}

func claimsBound(s *lwtest.Server, pod *corev1.Pod) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := lwtest.Objects[*corev1.PersistentVolumeClaim](s,
			"persistentvolumeclaims").Get(lw.Key{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			return false
		}
	}
	return true
}

// newPod returns a Pod of a template, which owner controls.
func newPod(t *corev1.PodTemplateSpec, owner metav1.Object, apiVersion, kind, name string) *corev1.Pod {
	t = t.DeepCopy()
	yes := true
	return &corev1.Pod{Spec: t.Spec, ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: owner.GetNamespace(), Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(),
			UID: owner.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}},
	}}
}

// createPod stores a Pod, unless a webhook refuses it.
func createPod(s *lwtest.Server, pod *corev1.Pod) (string, error) {
	_, err := lwtest.Objects[*corev1.Pod](s, "pods").Create(pod)
	return done(fmt.Sprintf("%s %s makes pod %s", pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name, pod.Name), err)
}

// deletePod asks a kubelet to end a Pod, as a client's deletion does.
func deletePod(s *lwtest.Server, pod *corev1.Pod) (string, error) {
	if ended(pod) || pod.Spec.NodeName == "" {
		return done(fmt.Sprintf("pod %s is deleted", keyOf(pod)), lwtest.Objects[*corev1.Pod](s, "pods").Delete(keyOf(pod)))
	}
	return sendDelete(s, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name, fmt.Sprintf("pod %s is deleted",
		keyOf(pod)))
}

// victims returns Pods in the order in which they are deleted: those that are not ready first.
func victims(pods []*corev1.Pod) []*corev1.Pod {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		rank := func(p *corev1.Pod) int {
			switch {
			case p.Spec.NodeName == "":
				return 0
			case !ready(p):
				return 1
			}
			return 2
		}
		return cmp.Compare(rank(a), rank(b))
	})
	return pods
}
