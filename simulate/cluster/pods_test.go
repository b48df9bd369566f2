package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
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

// request makes a request, and returns the code and the body of the answer.
func request(t *testing.T, b *bench, method, path, contentType, body string) (int, map[string]any) {
	t.Helper()
	r := rig.Must[*http.Request](t)(http.NewRequest(method, b.server.URL()+path, strings.NewReader(body)))
	r.Header.Set("Content-Type", contentType)
	resp := rig.Must[*http.Response](t)(b.server.Client().Do(r))
	defer resp.Body.Close()
	var out map[string]any
	rig.OK(t, json.NewDecoder(resp.Body).Decode(&out))
	return resp.StatusCode, out
}

// All that a server fills in of an object is there, and nothing of it has taken a client's place.
func TestAllDefaults(t *testing.T) {
	const uid = "00000000-0000-4000-9000-000000000001"
	container := func(name, image, policy, more string) string {
		return `{"name":"` + name + `","image":"` + image + `","imagePullPolicy":"` + policy + `",` + more +
			`"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}`
	}
	pod := func(restart string) string {
		return `"spec":{"containers":[` + container("c", "i:1", "IfNotPresent", "") + `],"dnsPolicy":"ClusterFirst",
			"restartPolicy":"` +
			restart + `","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}`
	}
	const given = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`
	const once = `"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}`
	const probe = `{"failureThreshold":3,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1}`
	const labels = `{"batch.kubernetes.io/controller-uid":"` + uid + `","batch.kubernetes.io/job-name":"x",
		"controller-uid":"` + uid + `","job-name":"x"}`
	template := `"template":{"metadata":{"labels":{"a":"b"}},` + pod("Always") + `}`
	const service = `"sessionAffinity":"None","type":"ClusterIP","internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],
		"ipFamilyPolicy":"SingleStack",`
	for _, tt := range []struct{ name, path, given, want string }{
		{"a Pod", "/api/v1/namespaces/d/pods", `"spec":{"initContainers":[{"name":"i","image":"x:5/y:latest",
			"ports":[{"containerPort":1}]}],
			"containers":[{"name":"c","image":"x:5/i","livenessProbe":{},"readinessProbe":{},"startupProbe":{}},{"name":"d","image":"i@sha256:1"}]}`,
			`"spec":{"containers":[` + container("c", "x:5/i", "Always", `"livenessProbe":`+probe+`,"readinessProbe":`+probe+`,
				"startupProbe":`+probe+`,`) + `,` +
				container("d", "i@sha256:1", "IfNotPresent", "") + `],"initContainers":[` +
				container("i", "x:5/y:latest", "Always", `"ports":[{"containerPort":1,"protocol":"TCP"}],`) + `],
				"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler",
				"securityContext":{},"serviceAccountName":"default","terminationGracePeriodSeconds":30},"status":{"phase":"Pending","qosClass":"BestEffort"}`},
		{"a Service", "/api/v1/namespaces/d/services", `"spec":{"ports":[{"port":80},{"name":"u","port":53,"protocol":"UDP",
			"targetPort":"dns"}]}`,
			`"spec":{` + service + `"clusterIP":"10.96.0.1","clusterIPs":["10.96.0.1"],"ports":[{"port":80,"protocol":"TCP",
				"targetPort":80},
				{"name":"u","port":53,"protocol":"UDP","targetPort":"dns"}]},"status":{"loadBalancer":{}}`},
		{"a Service elsewhere", "/api/v1/namespaces/d/services", `"spec":{"type":"ExternalName","externalName":"x.y"}`,
			`"spec":{"externalName":"x.y","sessionAffinity":"None","type":"ExternalName"},"status":{"loadBalancer":{}}`},
		{"a headless Service", "/api/v1/namespaces/d/services", `"spec":{"clusterIP":"None"}`,
			`"spec":{` + service + `"clusterIP":"None","clusterIPs":["None"]},"status":{"loadBalancer":{}}`},
		{"a Secret", "/api/v1/namespaces/d/secrets", `"stringData":{"a":"b"},"data":{"a":"eA==","c":"ZA=="}`,
			`"data":{"a":"Yg==","c":"ZA=="},"type":"Opaque"`},
		{"a Namespace", "/api/v1/namespaces", `"spec":{}`,
			`"labels":{"kubernetes.io/metadata.name":"x"},"spec":{},"status":{"phase":"Active"}`},
		{"a claim", "/api/v1/namespaces/d/persistentvolumeclaims", `"spec":{}`,
			`"spec":{"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}`},
		{"a ReplicationController", "/api/v1/namespaces/d/replicationcontrollers", `"spec":{` + given + `}`,
			`"spec":{"replicas":1,` + template + `},"status":{"replicas":0}`},
		{"one without a template", "/api/v1/namespaces/d/replicationcontrollers", `"spec":{"replicas":0}`,
			`"spec":{"replicas":0},"status":{"replicas":0}`},
		{"a Job", "/apis/batch/v1/namespaces/d/jobs", `"spec":{` + once + `}`,
			`"labels":` + labels + `,"spec":{"backoffLimit":6,"completionMode":"NonIndexed","completions":1,
				"manualSelector":false,"parallelism":1,
				"podReplacementPolicy":"TerminatingOrFailed","selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"` + uid + `"}},
				"suspend":false,"template":{"metadata":{"labels":` + labels + `},` + pod("Never") + `}},"status":{}`},
		{"a Job of its own", "/apis/batch/v1/namespaces/d/jobs", `"spec":{"parallelism":2,"manualSelector":true,
			"podFailurePolicy":{"rules":[]},` + once + `}`,
			`"spec":{"backoffLimit":6,"completionMode":"NonIndexed","manualSelector":true,"parallelism":2,
				"podFailurePolicy":{"rules":[]},
				"podReplacementPolicy":"Failed","suspend":false,"template":{"metadata":{},` + pod("Never") + `}},"status":{}`},
		{"a CronJob", "/apis/batch/v1/namespaces/d/cronjobs", `"spec":{"schedule":"* * * * *",
			"jobTemplate":{"spec":{` + once + `}}}`,
			`"spec":{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,"schedule":"* * * * *",
				"successfulJobsHistoryLimit":3,"suspend":false,
				"jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},` + pod("Never") + `}}}},"status":{}`},
		{"a Deployment", "/apis/apps/v1/namespaces/d/deployments", `"spec":{` + given + `}`,
			`"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":null,
				"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},` + template + `},"status":{}`},
		{"a Deployment that recreates", "/apis/apps/v1/namespaces/d/deployments", `"spec":{"strategy":{"type":"Recreate"},` + given + `}`,
			`"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":null,
				"strategy":{"type":"Recreate"},` + template + `},"status":{}`},
		{"a DaemonSet", "/apis/apps/v1/namespaces/d/daemonsets", `"spec":{` + given + `}`,
			`"spec":{"revisionHistoryLimit":10,"selector":null,"updateStrategy":{"rollingUpdate":{"maxSurge":0,
				"maxUnavailable":1},"type":"RollingUpdate"},` +
				template + `},"status":{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,
				"numberReady":0}`},
		{"a DaemonSet that waits", "/apis/apps/v1/namespaces/d/daemonsets", `"spec":{"updateStrategy":{"type":"OnDelete"},` + given + `}`,
			`"spec":{"revisionHistoryLimit":10,"selector":null,"updateStrategy":{"type":"OnDelete"},` + template +
				`},"status":{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}`},
		{"a ReplicaSet", "/apis/apps/v1/namespaces/d/replicasets", `"spec":{` + given + `}`,
			`"spec":{"replicas":1,"selector":null,` + template + `},"status":{"replicas":0}`},
		{"a StatefulSet", "/apis/apps/v1/namespaces/d/statefulsets", `"spec":{"volumeClaimTemplates":[{"metadata":{"name":"v"}}],` + given + `}`,
			`"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},
				"podManagementPolicy":"OrderedReady",
				"replicas":1,"revisionHistoryLimit":10,"selector":null,"serviceName":"","updateStrategy":{"rollingUpdate":{"partition":0},"type":"RollingUpdate"},
				"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}],` +
				template + `},"status":{"availableReplicas":0,"replicas":0}`},
		{"a StatefulSet that waits", "/apis/apps/v1/namespaces/d/statefulsets", `"spec":{"updateStrategy":{"type":"OnDelete"},` + given + `}`,
			`"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},
				"podManagementPolicy":"OrderedReady",
				"replicas":1,"revisionHistoryLimit":10,"selector":null,"serviceName":"","updateStrategy":{"type":"OnDelete"},` + template +
				`},"status":{"availableReplicas":0,"replicas":0}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				code, got := request(t, newBench(t), "POST", tt.path, "application/json", `{"metadata":{"name":"x"},`+tt.given+`}`)
				if code != http.StatusCreated {
					t.Fatal(got)
				}
				if labels := got["metadata"].(map[string]any)["labels"]; labels != nil {
					got["labels"] = labels
				}
				delete(got, "metadata")
				delete(got, "kind")
				delete(got, "apiVersion")
				var want map[string]any
				rig.OK(t, json.Unmarshal([]byte("{"+tt.want+"}"), &want))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// A server lets nobody change some fields of an object, and all others.
func TestImmutable(t *testing.T) {
	const spec = `"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"i:1"}]}}`
	const job = `"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i:1"}]}}`
	const other = `"template":{"spec":{"nodeSelector":{"a":"b"}}}`
	const containers = `"containers":[{"name":"c","image":"i:1"}]`
	for _, tt := range []struct {
		path, kind, given string
		stay              []string // what may not change
		change            []string // what may
	}{
		{"/apis/apps/v1/namespaces/d/deployments", "Deployment", spec, []string{`"selector":{"matchLabels":{"a":"c"}}`},
			[]string{`"replicas":2`, other}},
		{"/apis/apps/v1/namespaces/d/replicasets", "ReplicaSet", spec, []string{`"selector":{"matchLabels":{"a":"c"}}`},
			[]string{`"replicas":2`, other}},
		{"/apis/apps/v1/namespaces/d/statefulsets", "StatefulSet", spec,
			[]string{`"serviceName":"s"`, `"podManagementPolicy":"Parallel"`, `"selector":{"matchLabels":{"a":"c"}}`},
			[]string{`"replicas":2`, other, `"updateStrategy":{"rollingUpdate":{"partition":1}}`, `"revisionHistoryLimit":3`,
				`"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}`, `"minReadySeconds":1`, `"ordinals":{"start":1}`}},
		{"/apis/batch/v1/namespaces/d/jobs", "Job", job, []string{other}, []string{`"parallelism":2`, `"suspend":true`}},
		{"/apis/batch/v1/namespaces/d/jobs", "Job", `"suspend":true,` + job, nil, []string{other}},
		{"/api/v1/namespaces/d/pods", "Pod", containers, []string{`"hostname":"h"`, `"priority":1`,
			`"containers":[{"name":"c","image":"i:1"},{"name":"d","image":"i:1"}]`},
			[]string{`"containers":[{"name":"c","image":"i:2"}]`, `"activeDeadlineSeconds":1`, `"nodeName":"n"`,
				`"tolerations":[{"key":"k","operator":"Exists"}]`, `"terminationGracePeriodSeconds":1`,
				`"nodeSelector":{"a":"b"}`, `"affinity":{"nodeAffinity":{}}`, `"schedulingGates":[{"name":"g"}]`}},
		{"/api/v1/namespaces/d/services", "Service", `"ports":[{"port":80}]`, nil, []string{`"sessionAffinity":"ClientIP"`}},
	} {
		t.Run(tt.kind+" "+tt.given, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if code, got := request(t, b, "POST", tt.path, "application/json",
					`{"metadata":{"name":"x"},"spec":{`+tt.given+`}}`); code != http.StatusCreated {
					t.Fatal(got)
				}
				for i, change := range append(slices.Clone(tt.stay), tt.change...) {
					code, got := request(t, b, "PATCH", tt.path+"/x", "application/merge-patch+json", `{"spec":{`+change+`}}`)
					says := fmt.Sprint(got["message"])
					refused := strings.Contains(says, "a "+tt.kind+" may not change here: field is immutable")
					if want := i < len(tt.stay); refused != want || refused != (code == 422) || !refused && code != 200 {
						t.Errorf("%s: %d %s", change, code, says)
					}
				}
			})
		})
	}
}

// What is being deleted makes no Pods.
func TestDeletedSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		labels := map[string]string{"app": "a"}
		selector, of := &metav1.LabelSelector{MatchLabels: labels}, template(labels, "Running")
		meta := metav1.ObjectMeta{Namespace: "default", Name: "a", Finalizers: []string{"example.com/kept"}}
		deleted(t, b, "deployments", &appsv1.Deployment{ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{Selector: selector, Template: of}})
		deleted(t, b, "replicasets", &appsv1.ReplicaSet{ObjectMeta: meta,
			Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: of}})
		deleted(t, b, "statefulsets", &appsv1.StatefulSet{ObjectMeta: meta,
			Spec: appsv1.StatefulSetSpec{Selector: selector, Template: of}})
		deleted(t, b, "jobs", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: of}})
		b.settle(cluster.Deployments, cluster.ReplicaSets, cluster.StatefulSets, cluster.Jobs, cluster.Pods)
		if diff := cmp.Diff([]string(nil), b.pods()); diff != "" {
			t.Errorf("pods: (-want +got)\n%s", diff)
		}
	})
}

// deleted creates an object and deletes it, which its finalizer holds.
func deleted[T lw.Object](t *testing.T, b *bench, plural string, obj T) {
	t.Helper()
	all := lwtest.Objects[T](b.server, plural)
	rig.Must[T](t)(all.Create(obj))
	rig.OK(t, all.Delete(lw.KeyOf(obj)))
}
