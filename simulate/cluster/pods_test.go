package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// TestScheduler puts Pods on the nodes that they may be on.
func TestScheduler(t *testing.T) {
	require := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	label := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op,
			Values: values}}}
	}
	field := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name",
		Operator: corev1.NodeSelectorOpIn, Values: []string{"c"}}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"any": {corev1.PodSpec{}, "a"},
		"in":  {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpIn, "2", "9"))}, "b"},
		"not in": {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpNotIn, "1", "2"))},
			"c"},
		"exists":         {corev1.PodSpec{Affinity: require(label("disk", corev1.NodeSelectorOpExists))}, "b"},
		"does not exist": {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpDoesNotExist))}, ""},
		"more than":      {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpGt, "2"))}, "c"},
		"less than":      {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpLt, "1"))}, ""},
		"one of two terms": {corev1.PodSpec{Affinity: require(label("zone", corev1.NodeSelectorOpIn, "9"), field)},
			"c"},
		"all of a term": {corev1.PodSpec{Affinity: require(corev1.NodeSelectorTerm{MatchExpressions: label("zone",
			corev1.NodeSelectorOpIn, "2").MatchExpressions, MatchFields: field.MatchFields})}, ""},
		"a term of nothing": {corev1.PodSpec{Affinity: require(corev1.NodeSelectorTerm{})}, ""},
		"a selector beside": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "1"},
			Affinity: require(label("disk", corev1.NodeSelectorOpExists))}, ""},
		"a cordoned node": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "4"}}, ""},
		"one that takes that": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "4"},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, "d"},
		"one that takes no key": {corev1.PodSpec{NodeSelector: map[string]string{"zone": "4"},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpEqual}}}, ""},
		"a scheduler of its own": {corev1.PodSpec{SchedulerName: "own"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				for i, n := range []string{"a", "b", "c", "d"} {
					node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"zone": fmt.Sprint(i + 1)}}}
					if n == "b" {
						node.Labels["disk"] = "fast"
					}
					node.Spec.Unschedulable = n == "d"
					rig.Must[*corev1.Node](t)(lwtest.Objects[*corev1.Node](b.server, "nodes").Create(node))
				}
				pods := lwtest.Objects[*corev1.Pod](b.server, "pods")
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: c.spec}
				pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
				rig.Must[*corev1.Pod](t)(pods.Create(pod))
				b.settle(cluster.Nodes, cluster.Pods)
				pod = rig.Must[*corev1.Pod](t)(pods.Get(lw.KeyOf(pod)))
				if pod.Spec.NodeName != c.want {
					t.Errorf("it is on %q, want %q", pod.Spec.NodeName, c.want)
				}
			})
		})
	}
}

// A Pod that another scheduler binds is scheduled, and its conditions keep what does not change.
func TestConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		rig.Must[*corev1.Node](t)(lwtest.Objects[*corev1.Node](b.server,
			"nodes").Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		pods := lwtest.Objects[*corev1.Pod](b.server, "pods")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
			Spec: corev1.PodSpec{NodeSelector: map[string]string{"zone": "a"}, Containers: []corev1.Container{{Name: "c"}}}}
		rig.Must[*corev1.Pod](t)(pods.Create(pod))
		scheduled := func() corev1.PodCondition {
			pod = rig.Must[*corev1.Pod](t)(pods.Get(lw.KeyOf(pod)))
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodScheduled {
					return c
				}
			}
			return corev1.PodCondition{}
		}
		b.settle(cluster.Pods)
		first := scheduled()
		if first.Status != corev1.ConditionFalse || first.Reason != corev1.PodReasonUnschedulable {
			t.Errorf("it is %+v, want that no node fits", first)
		}
		b.settle(cluster.Pods) // a minute later
		if diff := cmp.Diff(first, scheduled()); diff != "" {
			t.Errorf("the condition has not changed: (-want +got)\n%s", diff)
		}
		pod.Spec.NodeName = "n"
		rig.Must[*corev1.Pod](t)(pods.Update(pod))
		b.settle(cluster.Pods)
		last := scheduled()
		if last.Status != corev1.ConditionTrue || last.Reason != "" ||
			!last.LastTransitionTime.After(first.LastTransitionTime.Time) || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("it is %s with %+v, want that it runs and is scheduled since now", pod.Status.Phase, last)
		}
		at := last.LastTransitionTime
		time.Sleep(time.Minute)
		pod.Annotations = map[string]string{"a": "b"}
		rig.Must[*corev1.Pod](t)(pods.Update(pod))
		b.settle(cluster.Pods)
		if got := scheduled(); !got.LastTransitionTime.Equal(&at) {
			t.Errorf("the condition is of %v, want %v", got.LastTransitionTime, at)
		}
	})
}

// Two Pods of one index are one completion.
func TestOneIndexTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"}, Spec: batchv1.JobSpec{
			Completions: new(int32(2)), Parallelism: new(int32(1)), CompletionMode: new(batchv1.IndexedCompletion),
			Template: template(nil, "Running"),
		}}
		rig.Must[*batchv1.Job](t)(b.client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}))
		b.settle(cluster.Jobs, cluster.Pods)
		pods := lwtest.Objects[*corev1.Pod](b.server, "pods")
		for pod := range pods.All() {
			twin := pod.DeepCopy()
			twin.Name, twin.UID, twin.ResourceVersion = pod.Name+"-twin", "", ""
			twin.Status.Phase, pod.Status.Phase = corev1.PodSucceeded, corev1.PodSucceeded
			rig.Must[*corev1.Pod](t)(pods.Create(twin))
			rig.Must[*corev1.Pod](t)(pods.Update(pod))
		}
		b.settle(cluster.Jobs, cluster.Pods)
		job = rig.Must[*batchv1.Job](t)(b.client.BatchV1().Jobs("default").Get(t.Context(), "j", metav1.GetOptions{}))
		if job.Status.Succeeded != 1 || len(job.Status.Conditions) > 0 || job.Status.Active != 1 {
			t.Errorf("the status is %+v, want one of two done and one active", job.Status)
		}
	})
}

// A server fills in what controllers look at.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template(nil, "")}}}}
		cron = rig.Must[*batchv1.CronJob](t)(b.client.BatchV1().CronJobs("default").Create(context.Background(), cron,
			metav1.CreateOptions{}))
		if s := cron.Spec; *s.FailedJobsHistoryLimit != 1 || *s.SuccessfulJobsHistoryLimit != 3 ||
			s.ConcurrencyPolicy != batchv1.AllowConcurrent {
			t.Errorf("the CronJob has %+v", s)
		}
		daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				Template: template(map[string]string{"a": "b"}, "")}}
		daemon = rig.Must[*appsv1.DaemonSet](t)(b.client.AppsV1().DaemonSets("default").Create(context.Background(), daemon,
			metav1.CreateOptions{}))
		if s := daemon.Spec; s.RevisionHistoryLimit == nil || *s.RevisionHistoryLimit != 10 ||
			s.UpdateStrategy.RollingUpdate == nil || s.UpdateStrategy.RollingUpdate.MaxUnavailable.IntValue() != 1 ||
			s.UpdateStrategy.RollingUpdate.MaxSurge.IntValue() != 0 {
			t.Errorf("the DaemonSet has %+v", s)
		}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.96.0.9", []string{"10.96.0.9", "fd00::9"}
		svc = rig.Must[*corev1.Service](t)(b.client.CoreV1().Services("default").Create(context.Background(), svc,
			metav1.CreateOptions{}))
		if diff := cmp.Diff([]string{"10.96.0.9", "fd00::9"}, svc.Spec.ClusterIPs); diff != "" {
			t.Errorf("the Service's addresses: (-want +got)\n%s", diff)
		}
	})
}
