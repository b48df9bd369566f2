package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// alive returns the Pods that an owner controls and that neither ended nor are being deleted.
func alive(s *lwtest.Server, owner metav1.Object) (pods []*corev1.Pod) {
	for _, pod := range owned(s, owner.GetUID()) {
		if !ended(pod) && pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

func countReady(pods []*corev1.Pod) (n int32) {
	for _, pod := range pods {
		if ready(pod) {
			n++
		}
	}
	return n
}

// hashOf returns what tells templates apart.
func hashOf(t *corev1.PodTemplateSpec) (string, error) {
	data, err := json.Marshal(t)
	return suffix(string(data)), err
}

// ReplicaSets make and delete Pods one at a time, and count them.
func ReplicaSets(_ context.Context, s *lwtest.Server) (string, error) {
	for _, rs := range all[*appsv1.ReplicaSet](s, "replicasets") {
		if rs.DeletionTimestamp != nil {
			continue
		}
		pods, want := alive(s, rs), int(*rs.Spec.Replicas)
		switch {
		case len(pods) < want:
			did, err := createPod(s, newPod(&rs.Spec.Template, rs, "apps/v1", "ReplicaSet", rs.Name+"-"+
				suffix(rs.UID, s.ResourceVersion())))
			if did != "" || err != nil {
				return did, err
			}
		case len(pods) > want:
			return deletePod(s, victims(pods)[0])
		}
		was := rs.Status.DeepCopy()
		n := countReady(pods)
		rs.Status.Replicas, rs.Status.FullyLabeledReplicas = int32(len(pods)), int32(len(pods))
		rs.Status.ReadyReplicas, rs.Status.AvailableReplicas, rs.Status.ObservedGeneration = n, n, rs.Generation
		if !equality.Semantic.DeepEqual(was, &rs.Status) {
			return update(s, "replicasets", rs, fmt.Sprintf("replicaset %s has %d pods, %d ready", keyOf(rs), len(pods), n))
		}
	}
	return "", nil
}

// Deployments keep one ReplicaSet for each template, and move the replicas to the newest: it grows
// by one, and when it is ready, the others shrink. Old ones stay without replicas.
func Deployments(_ context.Context, s *lwtest.Server) (string, error) {
	for _, d := range all[*appsv1.Deployment](s, "deployments") {
		if d.DeletionTimestamp != nil || d.Spec.Paused {
			continue
		}
		if did, err := syncDeployment(s, d); did != "" || err != nil {
			return did, err
		}
	}
	return "", nil
}

func syncDeployment(s *lwtest.Server, d *appsv1.Deployment) (string, error) {
	hash, err := hashOf(&d.Spec.Template)
	if err != nil {
		return "", err
	}
	var newest *appsv1.ReplicaSet
	var old []*appsv1.ReplicaSet
	total, ready, available := int32(0), int32(0), int32(0)
	for _, rs := range all[*appsv1.ReplicaSet](s, "replicasets") {
		if ref := metav1.GetControllerOf(rs); ref == nil || ref.UID != d.UID {
			continue
		}
		total, ready, available = total+rs.Status.Replicas, ready+rs.Status.ReadyReplicas, available+
			rs.Status.AvailableReplicas
		if rs.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == hash {
			newest = rs
		} else if *rs.Spec.Replicas > 0 {
			old = append(old, rs)
		}
	}
	sets := lwtest.Objects[*appsv1.ReplicaSet](s, "replicasets")
	want := *d.Spec.Replicas
	if newest == nil {
		pod := newPod(&d.Spec.Template, d, "apps/v1", "Deployment", d.Name+"-"+hash)
		labelled := maps.Clone(pod.Labels)
		if labelled == nil {
			labelled = map[string]string{}
		}
		labelled[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		selector := d.Spec.Selector.DeepCopy()
		if selector.MatchLabels == nil {
			selector.MatchLabels = map[string]string{}
		}
		selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		replicas := want
		if len(old) > 0 {
			replicas = min(1, want)
		}
		pod.Labels = labelled
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labelled, Annotations: pod.Annotations},
			Spec: pod.Spec}
		meta := pod.ObjectMeta
		meta.Annotations = nil
		_, err := sets.Create(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas,
			Selector: selector, Template: template, MinReadySeconds: d.Spec.MinReadySeconds}})
		return done(fmt.Sprintf("deployment %s makes replicaset %s", keyOf(d), meta.Name), err)
	}
	scale := func(rs *appsv1.ReplicaSet, n int32) (string, error) {
		rs.Spec.Replicas = &n
		return update(s, "replicasets", rs, fmt.Sprintf("replicaset %s is scaled to %d", keyOf(rs), n))
	}
	has := *newest.Spec.Replicas
	switch {
	case has > want || has < want && len(old) == 0:
		return scale(newest, want)
	case newest.Status.ReadyReplicas == has && len(old) > 0 && has+*old[0].Spec.Replicas > want:
		return scale(old[0], *old[0].Spec.Replicas-1)
	case newest.Status.ReadyReplicas == has && has < want:
		return scale(newest, has+1)
	}
	was, st := d.Status.DeepCopy(), &d.Status
	st.ObservedGeneration, st.Replicas, st.UpdatedReplicas = d.Generation, total, newest.Status.Replicas
	st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas = ready, available, max(0, want-available)
	deploymentCondition(st, appsv1.DeploymentAvailable, available >= want, "MinimumReplicasAvailable",
		"MinimumReplicasUnavailable")
	deploymentCondition(st, appsv1.DeploymentProgressing, true, "NewReplicaSetAvailable", "")
	if !equality.Semantic.DeepEqual(was, st) {
		return update(s, "deployments", d, fmt.Sprintf("deployment %s has %d pods, %d ready", keyOf(d), total, ready))
	}
	return "", nil
}

func deploymentCondition(st *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType, is bool, yes, no string) {
	c := appsv1.DeploymentCondition{Type: t, Status: corev1.ConditionFalse, Reason: no, LastUpdateTime: now(),
		LastTransitionTime: now()}
	if is {
		c.Status, c.Reason = corev1.ConditionTrue, yes
	}
	for i := range st.Conditions {
		if st.Conditions[i].Type == t {
			if st.Conditions[i].Status != c.Status {
				st.Conditions[i] = c
			}
			return
		}
	}
	st.Conditions = append(st.Conditions, c)
}

// StatefulSets make their Pods in order, each when the one before it is ready, and delete them in
// the other order; their claims stay. A new template replaces Pods from the last to the partition.
// Each template has a ControllerRevision.
func StatefulSets(_ context.Context, s *lwtest.Server) (string, error) {
	for _, set := range all[*appsv1.StatefulSet](s, "statefulsets") {
		if set.DeletionTimestamp != nil {
			continue
		}
		if did, err := syncStatefulSet(s, set); did != "" || err != nil {
			return did, err
		}
	}
	return "", nil
}

func syncStatefulSet(s *lwtest.Server, set *appsv1.StatefulSet) (string, error) {
	hash, err := hashOf(&set.Spec.Template)
	if err != nil {
		return "", err
	}
	revision := set.Name + "-" + hash
	revisions := lwtest.Objects[*appsv1.ControllerRevision](s, "controllerrevisions")
	if _, err := revisions.Get(lw.Key{Namespace: set.Namespace, Name: revision}); err != nil {
		number := int64(1)
		for _, r := range all[*appsv1.ControllerRevision](s, "controllerrevisions") {
			if ref := metav1.GetControllerOf(r); ref != nil && ref.UID == set.UID {
				number = max(number, r.Revision+1)
			}
		}
		data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": set.Spec.Template}})
		if err != nil {
			return "", err
		}
		meta := newPod(&set.Spec.Template, set, "apps/v1", "StatefulSet", revision).ObjectMeta
		meta.Annotations, meta.Finalizers = nil, nil
		_, err = revisions.Create(&appsv1.ControllerRevision{ObjectMeta: meta, Data: runtime.RawExtension{Raw: data},
			Revision: number})
		return done(fmt.Sprintf("statefulset %s makes revision %s", keyOf(set), revision), err)
	}
	start := int32(0)
	if set.Spec.Ordinals != nil {
		start = set.Spec.Ordinals.Start
	}
	pods, extra := map[string]*corev1.Pod{}, []*corev1.Pod(nil)
	name := func(i int32) string { return fmt.Sprintf("%s-%d", set.Name, start+i) }
	for _, pod := range owned(s, set.UID) {
		pods[pod.Name] = pod
	}
	was, st, want := set.Status.DeepCopy(), &set.Status, *set.Spec.Replicas
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpdatedReplicas, st.CurrentReplicas = 0, 0, 0, 0, 0
	st.ObservedGeneration, st.UpdateRevision = set.Generation, revision
	updated := func(pod *corev1.Pod) bool { return pod.Labels[appsv1.StatefulSetRevisionLabel] == revision }
	for i := range want {
		pod := pods[name(i)]
		delete(pods, name(i))
		if pod == nil {
			continue
		}
		st.Replicas++
		if ready(pod) {
			st.ReadyReplicas, st.AvailableReplicas = st.ReadyReplicas+1, st.AvailableReplicas+1
		}
		if updated(pod) {
			st.UpdatedReplicas++
		}
		pods["#"+fmt.Sprint(i)] = pod
	}
	for key, pod := range pods {
		if !strings.HasPrefix(key, "#") {
			extra = append(extra, pod)
		}
	}
	if st.CurrentRevision == "" || st.UpdatedReplicas == want {
		st.CurrentRevision = revision
	}
	if st.CurrentReplicas = st.UpdatedReplicas; st.CurrentRevision != revision {
		st.CurrentReplicas = st.Replicas - st.UpdatedReplicas
	}
	st.Replicas += int32(len(extra))
	if !equality.Semantic.DeepEqual(was, st) {
		return update(s, "statefulsets", set, fmt.Sprintf("statefulset %s has %d pods, %d ready", keyOf(set), st.Replicas,
			st.ReadyReplicas))
	}
	ordered := set.Spec.PodManagementPolicy == appsv1.OrderedReadyPodManagement
	for i := range want {
		pod := pods["#"+fmt.Sprint(i)]
		switch {
		case pod == nil:
			if did, err := statefulPod(s, set, name(i), start+i, revision); did != "" || err != nil || ordered {
				return did, err
			}
		case ended(pod) && pod.DeletionTimestamp == nil:
			return deletePod(s, pod)
		case ordered && (!ready(pod) || pod.DeletionTimestamp != nil):
			return "", nil
		}
	}
	var last *corev1.Pod
	for _, pod := range extra {
		if pod.DeletionTimestamp != nil {
			return "", nil
		}
		if last == nil || len(pod.Name) > len(last.Name) || len(pod.Name) == len(last.Name) && pod.Name > last.Name {
			last = pod
		}
	}
	if last != nil {
		return deletePod(s, last)
	}
	if u := set.Spec.UpdateStrategy; u.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		partition := int32(0)
		if u.RollingUpdate != nil && u.RollingUpdate.Partition != nil {
			partition = *u.RollingUpdate.Partition
		}
		for i := want - 1; i >= partition; i-- {
			switch pod := pods["#"+fmt.Sprint(i)]; {
			case pod == nil || pod.DeletionTimestamp != nil:
				return "", nil
			case !updated(pod):
				return deletePod(s, pod)
			case !ready(pod):
				return "", nil
			}
		}
	}
	return "", nil
}

// statefulPod makes a Pod of a StatefulSet, or first one of its claims.
func statefulPod(s *lwtest.Server, set *appsv1.StatefulSet, name string, ordinal int32,
	revision string) (string, error) {
	pod := newPod(&set.Spec.Template, set, "apps/v1", "StatefulSet", name)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetRevisionLabel], pod.Labels[appsv1.StatefulSetPodNameLabel] = revision, name
	pod.Labels[appsv1.PodIndexLabel] = fmt.Sprint(ordinal)
	pod.Spec.Hostname, pod.Spec.Subdomain = name, set.Spec.ServiceName
	claims := lwtest.Objects[*corev1.PersistentVolumeClaim](s, "persistentvolumeclaims")
	for _, t := range set.Spec.VolumeClaimTemplates {
		claim := t.DeepCopy()
		claim.Name, claim.Namespace = t.Name+"-"+name, set.Namespace
		if claim.Labels == nil && set.Spec.Selector != nil {
			claim.Labels = maps.Clone(set.Spec.Selector.MatchLabels)
		}
		if _, err := claims.Get(keyOf(claim)); err != nil {
			_, err := claims.Create(claim)
			return done(fmt.Sprintf("statefulset %s makes claim %s", keyOf(set), claim.Name), err)
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	return createPod(s, pod)
}
