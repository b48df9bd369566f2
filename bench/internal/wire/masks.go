package wire

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
)

// The sides of a program that reads the labels, the node, the phase, the IP and the conditions of
// pods, and keeps pods all the same: *corev1.Pod with nothing else in them.
const (
	maskSet      = "masks"
	wholeClient  = "client-go, whole pods"
	wholePods    = "lw, whole pods"
	podsOfAShape = "lw, a projection"
)

// podFields is what the program reads.
var podFields = lw.Fields{"metadata.labels", "spec.nodeName", "status.conditions.status", "status.conditions.type",
	"status.phase", "status.podIP"}

func init() {
	sets[maskSet] = &set{podKind, map[string]side{
		compare.ClientGo: {follow: podsByClientGo(stripPod)},
		wholeClient:      {follow: podsByClientGo(nil)},
		compare.LW:       {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{Only: podFields} })},
		wholePods:        {follow: byLW(func() *lw.HTTP[*corev1.Pod] { return &lw.HTTP[*corev1.Pod]{} })},
		shareCut: {follow: byLW(func() *lw.HTTP[*corev1.Pod] {
			return &lw.HTTP[*corev1.Pod]{Share: true, Drop: []string{"metadata.managedFields"}}
		})},
		podsOfAShape: {follow: byLW(func() *lw.HTTP[*maskedPod] { return &lw.HTTP[*maskedPod]{} })},
	}}
}

// stripPod is a cache.TransformFunc that keeps what podFields keeps.
func stripPod(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, Labels: pod.Labels},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, PodIP: pod.Status.PodIP},
	}
	if pod.Status.Conditions != nil {
		kept.Status.Conditions = make([]corev1.PodCondition, len(pod.Status.Conditions))
		for i, c := range pod.Status.Conditions {
			kept.Status.Conditions[i] = corev1.PodCondition{Type: c.Type, Status: c.Status}
		}
	}
	return kept, nil
}

// A maskedPod has the same fields in a type of its own.
type maskedPod struct {
	maskedMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec       struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase      corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		Conditions []struct {
			Type   corev1.PodConditionType `json:"type" protobuf:"bytes,1,opt,name=type"`
			Status corev1.ConditionStatus  `json:"status" protobuf:"bytes,2,opt,name=status"`
		} `json:"conditions" protobuf:"bytes,2,rep,name=conditions"`
		PodIP string `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

type maskedMeta struct {
	lw.Meta
	Labels map[string]string `json:"labels" protobuf:"bytes,11,rep,name=labels"`
}

// streamMasked measures what a program pays that reads six fields of pods, with client-go's
// informer and a transform that keeps these, and with lw's HTTP.Only.
func streamMasked(n int, format Format) compare.Case {
	name := map[Format]string{JSON: "JSON", Protobuf: "protobuf"}[format]
	most := func(json, protobuf float64) float64 {
		if format == JSON {
			return json
		}
		return protobuf
	}
	what := "six fields of a pod, " + name + ", against a transform that keeps them: "
	return measured(compare.Case{Name: "six fields, " + name, Lines: []compare.Line{
		{Row: 48, What: what + "sync CPU a pod", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Goal: compare.Times(most(12, 5))},
		{Row: 48, What: what + "allocations of a sync", Unit: compare.Count, Key: "sync.allocs"},
		{Row: 48, What: what + "live heap a pod, at most", Unit: compare.Bytes, Key: "live", Goal: compare.Most(2_900)},
		{Row: 48, What: what + "peak RSS of the sync", Unit: compare.Bytes, Key: "peak", Goal: compare.Times(1 / 0.65)},
		{Row: 48, What: what + "event CPU, another status", Unit: compare.Nanoseconds, Key: "status.cpu",
			Goal: compare.Times(most(20, 6))},
		{Row: 48, What: what + "event CPU, another version", Unit: compare.Nanoseconds, Key: "version.cpu"},
		{Row: 48, What: "six fields of a pod, " + name + ", against all: sync CPU a pod", Unit: compare.Nanoseconds,
			Key: "sync.cpu", Base: wholePods, Goal: compare.Times(most(2, 3))},
		{Row: 48, What: "six fields of a pod, " + name + ", against all: live heap a pod", Unit: compare.Bytes, Key: "live",
			Base: wholePods},
		{Row: 48, What: "six fields of a pod, " + name + ", against all: peak RSS of the sync", Unit: compare.Bytes,
			Key: "peak", Base: wholePods},
		{Row: 48, What: "six fields of a pod, " + name + ", against all: event CPU, another status",
			Unit: compare.Nanoseconds, Key: "status.cpu", Base: wholePods},
		{Row: 48, What: "six fields of a pod, " + name + ", against all: event CPU, another version",
			Unit: compare.Nanoseconds, Key: "version.cpu", Base: wholePods},
		{Row: 48, What: "six fields of a pod, " + name + ", against Share and Drop: sync CPU a pod",
			Unit: compare.Nanoseconds, Key: "sync.cpu", Base: shareCut},
		{Row: 48, What: "six fields of a pod, " + name + ", against Share and Drop: live heap a pod", Unit: compare.Bytes,
			Key: "live", Base: shareCut},
		{Row: 48, What: "six fields of a pod, " + name + ", against a projection: sync CPU a pod", Unit: compare.Nanoseconds,
			Key: "sync.cpu", Base: podsOfAShape},
		{Row: 48, What: "six fields of a pod, " + name + ", against a projection: live heap a pod", Unit: compare.Bytes,
			Key: "live", Base: podsOfAShape},
		{Row: 48, What: "six fields of a pod, " + name + ", against client-go without a transform: live heap a pod",
			Unit: compare.Bytes, Key: "live", Base: wholeClient},
		{Row: 48, What: "six fields of a pod, " + name + ", against client-go without a transform: sync CPU a pod",
			Unit: compare.Nanoseconds, Key: "sync.cpu", Base: wholeClient},
	}}, job{Set: maskSet, Path: streamed, Format: format, N: n, Changes: usual},
		compare.ClientGo, wholeClient, compare.LW, wholePods, shareCut, podsOfAShape)
}
