package cluster_test

//lint:file-ignore SA1019 Servers and controllers still have Endpoints.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

type act = func(ctx context.Context, s *lwtest.Server) (string, error)

// A bench is a server with a client and actors.
type bench struct {
	t      *testing.T
	server *lwtest.Server
	client kubernetes.Interface
	did    []string
}

func newBench(t *testing.T, hooks ...cluster.Admission) *bench {
	s := lwtest.NewServer(t, cluster.Admit(cluster.Resources(), hooks...)...)
	c := rig.Must[*kubernetes.Clientset](t)(kubernetes.NewForConfig(&rest.Config{Host: s.URL(), Transport: s.Client().Transport, QPS: -1}))
	return &bench{t: t, server: s, client: c}
}

// settle lets actors act, and time pass, until nobody has done anything for a minute.
func (b *bench) settle(actors ...act) {
	b.t.Helper()
	for idle := 0; idle < 60; {
		did := ""
		for _, a := range append(actors, func(context.Context, *lwtest.Server) (string, error) { return b.server.Collect(), nil }) {
			before := b.server.ResourceVersion()
			var err error
			if did, err = a(b.t.Context(), b.server); err != nil {
				b.t.Fatal(err)
			}
			if after := b.server.ResourceVersion(); did == "" && after != before {
				b.t.Fatalf("an actor has written and says nothing: %v", b.did)
			}
			if did != "" {
				break
			}
		}
		if did == "" {
			idle++
			time.Sleep(time.Second)
			continue
		}
		idle = 0
		if b.did = append(b.did, did); len(b.did) > 500 {
			b.t.Fatalf("the actors do not come to rest: %v", b.did[len(b.did)-10:])
		}
	}
}

// pods are those of a server: name, phase, and whether they are ready.
func (b *bench) pods() (out []string) {
	for pod := range lwtest.Objects[*corev1.Pod](b.server, "pods").All() {
		name, is := pod.Name, ""
		if job, ok := pod.Labels["job-name"]; ok {
			name = job // the rest of the name is generated
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				is = " ready"
			}
		}
		out = append(out, fmt.Sprintf("%s %s%s", name, pod.Status.Phase, is))
	}
	slices.Sort(out)
	return out
}

func template(labels map[string]string, fate string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{RestartPolicy: "Never", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if fate != "" {
		t.Annotations = map[string]string{cluster.Fate: fate}
	}
	return t
}

// The built-in kinds are what client-go's clients take them for.
func TestResources(t *testing.T) {
	clients := reflect.TypeFor[kubernetes.Interface]()
	fields := map[string][]string{
		"pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
			"status.nominatedNodeName", "status.phase", "status.podIP"},
		"services": {"spec.clusterIP", "spec.type"}, "secrets": {"type"}, "nodes": {"spec.unschedulable"},
		"namespaces": {"status.phase"}, "jobs": {"status.successful"}, "resourceslices": {"spec.driver", "spec.nodeName"},
		"certificatesigningrequests": {"spec.signerName"}, "ipaddresses": {"spec.parentRef.name"},
		"events": {"involvedObject.namespace", "involvedObject.name", "involvedObject.kind", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.fieldPath", "involvedObject.resourceVersion", "reason",
			"reportingComponent", "type"},
		"events.events.k8s.io": {"regarding.name", "regarding.kind", "regarding.uid", "reason", "type"},
	}
	for _, r := range cluster.Resources() {
		group, _, _ := strings.Cut(cmp.Or(r.Group, "core"), ".")
		of, ok := clients.MethodByName(strings.ToUpper(group[:1]) + group[1:] + strings.ToUpper(cmp.Or(r.Version, "v1")))
		if !ok {
			if r.Plural != "customresourcedefinitions" {
				t.Errorf("%s: no client has %s", r.Plural, of.Name)
			}
			continue
		}
		var client reflect.Method
		for m := range of.Type.Out(0).Methods() {
			if strings.ToLower(m.Name) == r.Plural {
				client = m
			}
		}
		if client.Type == nil {
			t.Errorf("%s: no client is of it", r.Plural)
			continue
		}
		status := r.Plural != "csinodes" // theirs is newer than the servers that this is of
		get, _ := client.Type.Out(0).MethodByName("Get")
		has := func(method string) bool { _, ok := client.Type.Out(0).MethodByName(method); return ok }
		name := strings.TrimSuffix(r.Plural+"."+r.Group, ".")
		if _, ok := fields[name]; !ok && name != r.Plural {
			name = r.Plural
		}
		want := lwtest.Resource{Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: get.Type.Out(0).Elem().Name(),
			Cluster: client.Type.NumIn() == 0, Status: status && has("UpdateStatus"), Scale: has("UpdateScale"),
			Grace: r.Plural == "pods", Type: reflect.New(get.Type.Out(0).Elem()).Interface().(runtime.Object),
			Fields: fields[name], Managed: true}
		r.Default, r.Validate = nil, nil
		if diff := gocmp.Diff(want, r, cmpopts.IgnoreUnexported(r)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", r.Plural, diff)
		}
	}
}

// A Job comes to its end, as its Pods' fate and its own fields say.
func TestJobs(t *testing.T) {
	for name, test := range map[string]struct {
		spec       batchv1.JobSpec
		fate       string
		conditions string
		pods       []string
	}{
		"one":       {batchv1.JobSpec{}, "", "SuccessCriteriaMet Complete", []string{"j Succeeded"}},
		"indexed":   {batchv1.JobSpec{Completions: new(int32(2)), Parallelism: new(int32(2)), CompletionMode: new(batchv1.IndexedCompletion)}, "", "SuccessCriteriaMet Complete", []string{"j Succeeded", "j Succeeded"}},
		"fails":     {batchv1.JobSpec{BackoffLimit: new(int32(1))}, "Failed", "FailureTarget Failed", []string{"j Failed", "j Failed"}},
		"suspended": {batchv1.JobSpec{Suspend: new(true)}, "", "Suspended", nil},
		"runs":      {batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(3))}, "Running", "", []string{"j Running ready", "j Running ready"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				jobs := b.client.BatchV1().Jobs("default")
				job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: test.spec}
				job.Spec.Template = template(nil, test.fate)
				rig.Must[*batchv1.Job](t)(jobs.Create(t.Context(), job, metav1.CreateOptions{}))
				b.settle(cluster.Jobs, cluster.Pods)
				job = rig.Must[*batchv1.Job](t)(jobs.Get(t.Context(), "j", metav1.GetOptions{}))
				var conditions []string
				for _, c := range job.Status.Conditions {
					if c.Status == corev1.ConditionTrue {
						conditions = append(conditions, string(c.Type))
					}
				}
				if got := strings.Join(conditions, " "); got != test.conditions {
					t.Errorf("the conditions are %q, want %q", got, test.conditions)
				}
				if diff := gocmp.Diff(test.pods, b.pods()); diff != "" {
					t.Errorf("pods: (-want +got)\n%s", diff)
				}
				// Its deletion takes the Pods with it.
				background := metav1.DeletePropagationBackground
				rig.OK(t, jobs.Delete(t.Context(), "j", metav1.DeleteOptions{PropagationPolicy: &background}))
				if b.settle(cluster.Jobs, cluster.Pods); b.pods() != nil {
					t.Errorf("pods are left: %v", b.pods())
				}
			})
		})
	}
}

// Sets make their Pods, replace them when the template changes, and shrink.
func TestSets(t *testing.T) {
	labels := map[string]string{"app": "a"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	every := []act{cluster.Deployments, cluster.ReplicaSets, cluster.StatefulSets, cluster.Claims, cluster.Pods, cluster.Endpoints, cluster.Nodes}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}}
		rig.Must[*corev1.Service](t)(b.client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}))
		sets := b.client.AppsV1().StatefulSets("default")
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), Selector: selector, Template: template(labels, "Running"), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		}}
		set.Spec.Template.Spec.RestartPolicy = ""
		rig.Must[*appsv1.StatefulSet](t)(sets.Create(t.Context(), set, metav1.CreateOptions{}))
		b.settle(every...)
		if diff := gocmp.Diff([]string{"w-0 Running ready", "w-1 Running ready"}, b.pods()); diff != "" {
			t.Errorf("pods: (-want +got)\n%s", diff)
		}
		if first, second := slices.Index(b.did, "pod default/w-0 is ready"), slices.Index(b.did, "StatefulSet w makes pod w-1"); first < 0 || second < first {
			t.Errorf("the second pod does not wait for the first: %v", b.did)
		}
		set = rig.Must[*appsv1.StatefulSet](t)(sets.Get(t.Context(), "w", metav1.GetOptions{}))
		if st := set.Status; st.ReadyReplicas != 2 || st.UpdatedReplicas != 2 || st.CurrentRevision != st.UpdateRevision || st.CurrentRevision == "" {
			t.Errorf("the status is %+v", st)
		}
		old := set.Status.CurrentRevision
		set.Spec.Template.Spec.Containers[0].Image = "other"
		set.Spec.Replicas = new(int32(1))
		rig.Must[*appsv1.StatefulSet](t)(sets.Update(t.Context(), set, metav1.UpdateOptions{}))
		b.settle(every...)
		pod := rig.Must[*corev1.Pod](t)(b.client.CoreV1().Pods("default").Get(t.Context(), "w-0", metav1.GetOptions{}))
		if pod.Spec.Containers[0].Image != "other" || pod.Labels[appsv1.StatefulSetRevisionLabel] == old || len(b.pods()) != 1 {
			t.Errorf("the pods are %v, of %v", b.pods(), pod.Labels)
		}
		for slice := range lwtest.Objects[*discoveryv1.EndpointSlice](b.server, "endpointslices").All() {
			if len(slice.Endpoints) != 1 || !*slice.Endpoints[0].Conditions.Ready || *slice.Ports[0].Port != 80 {
				t.Errorf("the slice is %+v", slice)
			}
		}
		set = rig.Must[*appsv1.StatefulSet](t)(sets.Get(t.Context(), "w", metav1.GetOptions{}))
		set.Spec.ServiceName = "other"
		if _, err := sets.Update(t.Context(), set, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("another serviceName: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		deployments := b.client.AppsV1().Deployments("default")
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: selector, Template: template(labels, "Running")}}
		d.Spec.Template.Spec.RestartPolicy = ""
		rig.Must[*appsv1.Deployment](t)(deployments.Create(t.Context(), d, metav1.CreateOptions{}))
		b.settle(every...)
		d = rig.Must[*appsv1.Deployment](t)(deployments.Get(t.Context(), "d", metav1.GetOptions{}))
		d.Spec.Template.Spec.Containers[0].Image = "other"
		rig.Must[*appsv1.Deployment](t)(deployments.Update(t.Context(), d, metav1.UpdateOptions{}))
		b.settle(every...)
		d = rig.Must[*appsv1.Deployment](t)(deployments.Get(t.Context(), "d", metav1.GetOptions{}))
		if st := d.Status; st.ReadyReplicas != 3 || st.UpdatedReplicas != 3 || st.Replicas != 3 || len(b.pods()) != 3 {
			t.Errorf("the status is %+v, the pods %v", st, b.pods())
		}
		for pod := range lwtest.Objects[*corev1.Pod](b.server, "pods").All() {
			if pod.Spec.Containers[0].Image != "other" {
				t.Errorf("%s is of the old template", pod.Name)
			}
		}
	})
}

// The whole status of each kind, and what the actors say that they have done.
func TestStatuses(t *testing.T) {
	conditions := func(at string, is ...string) string {
		var all []string
		for i, name := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
			since := map[bool]string{true: "+0s", false: at}[i < 2]
			all = append(all, `{"lastProbeTime":null,"lastTransitionTime":"`+since+`","status":"`+is[i/2]+`","type":"`+name+`"}`)
		}
		return `"conditions":[` + strings.Join(all, ",") + `]`
	}
	pod := func(phase, conditions, ready, state string) string {
		return `{` + conditions + `,"containerStatuses":[{"containerID":"simulate://c","image":"i","imageID":"i",
			"lastState":{},"name":"c","ready":` +
			ready + `,"restartCount":0,"started":` + ready + `,"state":{` + state + `}}],"hostIP":"192.168.0.1",
				"phase":"` + phase +
			`","podIP":"IP","podIPs":[{"ip":"IP"}],"qosClass":"BestEffort","startTime":"+0s"}`
	}
	ended := func(phase, code, reason string) string {
		return pod(phase, conditions("+10s", "True", "False"), "false",
			`"terminated":{"exitCode":`+code+`,"finishedAt":"+10s","reason":"`+reason+`","startedAt":"+0s"}`)
	}
	job := func(types, reason, message string) string {
		var all []string
		for name := range strings.FieldsSeq(types) {
			all = append(all, `{"lastProbeTime":"+10s","lastTransitionTime":"+10s","message":"`+message+`","reason":"`+reason+
				`","status":"True","type":"`+name+`"}`)
		}
		return `"conditions":[` + strings.Join(all, ",") + `]`
	}
	runs := pod("Running", conditions("+0s", "True", "True"), "true", `"running":{"startedAt":"+0s"}`)
	want := map[string]string{
		"deployments d": `{"availableReplicas":1,"conditions":[{"lastTransitionTime":"+0s","lastUpdateTime":"+0s",
			"reason":"MinimumReplicasAvailable","status":"True","type":"Available"},{"lastTransitionTime":"+0s","lastUpdateTime":"+0s",
			"reason":"NewReplicaSetAvailable","status":"True","type":"Progressing"}],"observedGeneration":1,"readyReplicas":1,"replicas":1,"updatedReplicas":1}`,
		"replicasets d-HASH": `{"availableReplicas":1,"fullyLabeledReplicas":1,"observedGeneration":1,"readyReplicas":1,
			"replicas":1}`,
		"statefulsets s": `{"availableReplicas":1,"currentReplicas":1,"currentRevision":"s-HASH","observedGeneration":1,
			"readyReplicas":1,
			"replicas":1,"updateRevision":"s-HASH","updatedReplicas":1}`,
		"jobs done": `{"completionTime":"+10s",` + job("SuccessCriteriaMet Complete", "CompletionsReached", "Reached expected number of succeeded pods") +
			`,"ready":0,"startTime":"+0s","succeeded":1,"terminating":0}`,
		"jobs fails": `{` + job("FailureTarget Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit") +
			`,"failed":1,"ready":0,"startTime":"+0s","terminating":0}`,
		"jobs runs": `{"active":1,"ready":1,"startTime":"+0s","terminating":0}`,
		"jobs suspended": `{"conditions":[{"lastProbeTime":"+0s","lastTransitionTime":"+0s","reason":"JobSuspended",
			"status":"True","type":"Suspended"}],
			"ready":0,"terminating":0}`,
		"pods d-HASH-HASH": runs, "pods runs-HASH": runs, "pods s-0": runs,
		"pods done-HASH": ended("Succeeded", "0", "Completed"), "pods fails-HASH": ended("Failed", "1", "Error"),
	}
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		selector, begun := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}, time.Now()
		of := template(selector.MatchLabels, "Running")
		of.Spec.RestartPolicy = ""
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
		rig.Must[*appsv1.Deployment](t)(b.client.AppsV1().Deployments("default").Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{Selector: selector, Template: of}}, metav1.CreateOptions{}))
		rig.Must[*appsv1.StatefulSet](t)(b.client.AppsV1().StatefulSets("default").Create(t.Context(), &appsv1.StatefulSet{
			ObjectMeta: meta("s"), Spec: appsv1.StatefulSetSpec{Selector: selector, Template: of}}, metav1.CreateOptions{}))
		for name, spec := range map[string]batchv1.JobSpec{"done": {}, "suspended": {Suspend: new(true)},
			"fails": {Template: template(nil, "Failed")}, "runs": {Template: template(nil, "Running")}} {
			if spec.BackoffLimit = new(int32(0)); spec.Template.Spec.Containers == nil {
				spec.Template = template(nil, "")
			}
			rig.Must[*batchv1.Job](t)(b.client.BatchV1().Jobs("default").Create(t.Context(),
				&batchv1.Job{ObjectMeta: meta(name), Spec: spec}, metav1.CreateOptions{}))
		}
		b.settle(cluster.Deployments, cluster.ReplicaSets, cluster.StatefulSets, cluster.Jobs, cluster.Pods)
		made, times := regexp.MustCompile(`-[b-z0-9]{5}\b`), regexp.MustCompile(`"2000-[^"]+Z"`)
		for plural, path := range map[string]string{"deployments": "/apis/apps/v1", "replicasets": "/apis/apps/v1",
			"statefulsets": "/apis/apps/v1", "jobs": "/apis/batch/v1", "pods": "/api/v1"} {
			_, list := request(t, b, "GET", path+"/namespaces/default/"+plural, "", "")
			for _, item := range list["items"].([]any) {
				obj := item.(map[string]any)
				name := plural + " " + made.ReplaceAllString(obj["metadata"].(map[string]any)["name"].(string), "-HASH")
				status := obj["status"].(map[string]any)
				if strings.Contains(name, " d-") {
					labels := made.ReplaceAllString(fmt.Sprint("-", obj["metadata"].(map[string]any)["labels"]), "-HASH")
					if !regexp.MustCompile(`^-map\[app:a pod-template-hash:\w{5}\]$`).MatchString(labels) {
						t.Errorf("the labels of %s are %s", name, labels)
					}
				}
				text := made.ReplaceAllString(string(rig.Must[[]byte](t)(json.Marshal(status))), "-HASH")
				if ip, ok := status["podIP"].(string); ok && strings.HasPrefix(ip, "10.0.") {
					text = strings.ReplaceAll(text, `"`+ip+`"`, `"IP"`)
				}
				text = times.ReplaceAllStringFunc(text, func(at string) string {
					return `"+` + rig.Must[time.Time](t)(time.Parse(`"`+time.RFC3339+`"`, at)).Sub(begun).String() + `"`
				})
				var is, should any
				rig.OK(t, json.Unmarshal([]byte(text), &is))
				rig.OK(t, json.Unmarshal([]byte(cmp.Or(want[name], "null")), &should))
				if diff := gocmp.Diff(should, is); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", name, diff)
				}
				delete(want, name)
			}
		}
		if len(want) > 0 {
			t.Errorf("there is no %v", want)
		}
		var did []string
		for _, line := range b.did {
			did = append(did, made.ReplaceAllString(line, "-HASH"))
		}
		slices.Sort(did)
		rig.Same(t, "what the actors say", []string{
			"Job done makes pod done-HASH", "Job fails makes pod fails-HASH", "Job runs makes pod runs-HASH",
			"ReplicaSet d-HASH makes pod d-HASH-HASH", "StatefulSet s makes pod s-0",
			"deployment default/d has 0 pods, 0 ready", "deployment default/d has 1 pods, 0 ready",
			"deployment default/d has 1 pods, 1 ready", "deployment default/d makes replicaset d-HASH",
			"job default/done has 0 pods active, 0 succeeded, 0 failed",
			"job default/done has 0 pods active, 1 succeeded, 0 failed",
			"job default/done has 1 pods active, 0 succeeded, 0 failed",
			"job default/fails has 0 pods active, 0 succeeded, 0 failed",
			"job default/fails has 0 pods active, 0 succeeded, 1 failed",
			"job default/fails has 1 pods active, 0 succeeded, 0 failed",
			"job default/runs has 0 pods active, 0 succeeded, 0 failed",
			"job default/runs has 1 pods active, 0 succeeded, 0 failed",
			"job default/suspended has 0 pods active, 0 succeeded, 0 failed",
			"pod default/d-HASH-HASH is put on node", "pod default/d-HASH-HASH is ready", "pod default/d-HASH-HASH runs",
			"pod default/done-HASH has Succeeded", "pod default/done-HASH is put on node", "pod default/done-HASH is ready",
			"pod default/done-HASH runs", "pod default/fails-HASH has Failed", "pod default/fails-HASH is put on node",
			"pod default/fails-HASH is ready", "pod default/fails-HASH runs", "pod default/runs-HASH is put on node",
			"pod default/runs-HASH is ready", "pod default/runs-HASH runs", "pod default/s-0 is put on node",
			"pod default/s-0 is ready", "pod default/s-0 runs", "replicaset default/d-HASH has 1 pods, 0 ready",
			"replicaset default/d-HASH has 1 pods, 1 ready", "statefulset default/s has 0 pods, 0 ready",
			"statefulset default/s has 1 pods, 0 ready", "statefulset default/s has 1 pods, 1 ready",
			"statefulset default/s makes revision s-HASH",
		}, slices.Compact(did))
	})
}

// A revision of a StatefulSet has the number after those of the same set. The current one stays
// until all Pods are of the next.
func TestRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		sets := lwtest.Objects[*appsv1.StatefulSet](b.server, "statefulsets")
		var statuses []string
		for _, name := range []string{"a", "b", "c"} {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template(selector.MatchLabels, "Running")}}
			rig.Must[*appsv1.StatefulSet](t)(sets.Create(set))
			b.settle(cluster.StatefulSets)
			for _, image := range strings.Fields(map[string]string{"b": "x y"}[name]) {
				set = rig.Must[*appsv1.StatefulSet](t)(sets.Get(lw.Key{Namespace: "default", Name: name}))
				set.Spec.Template.Spec.Containers[0].Image = image
				rig.Must[*appsv1.StatefulSet](t)(sets.Update(set))
				b.settle(cluster.StatefulSets)
			}
			st := rig.Must[*appsv1.StatefulSet](t)(sets.Get(lw.Key{Namespace: "default", Name: name})).Status
			statuses = append(statuses, fmt.Sprintf("%s: current %t, %d of %d current, %d updated", name,
				st.CurrentRevision == st.UpdateRevision && st.CurrentRevision != "", st.CurrentReplicas, st.Replicas, st.UpdatedReplicas))
		}
		rig.Same(t, "the statuses", []string{"a: current true, 1 of 1 current, 1 updated",
			"b: current false, 1 of 1 current, 0 updated", "c: current true, 1 of 1 current, 1 updated"}, statuses)
		var got []string
		for r := range lwtest.Objects[*appsv1.ControllerRevision](b.server, "controllerrevisions").All() {
			got = append(got, fmt.Sprint(r.OwnerReferences[0].Name, r.Revision))
		}
		slices.Sort(got)
		rig.Same(t, "the revisions", []string{"a1", "b1", "b2", "b3", "c1"}, got)
	})
}

// Two Deployments of one template have a ReplicaSet each, and leave those of nobody alone.
func TestTwoDeployments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
		of := template(selector.MatchLabels, "Running")
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
		sets := lwtest.Objects[*appsv1.ReplicaSet](b.server, "replicasets")
		rig.Must[*appsv1.ReplicaSet](t)(sets.Create(&appsv1.ReplicaSet{ObjectMeta: meta("c"),
			Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3)), Selector: selector, Template: of}}))
		deployments := lwtest.Objects[*appsv1.Deployment](b.server, "deployments")
		for name, replicas := range map[string]int32{"a": 1, "b": 2} {
			rig.Must[*appsv1.Deployment](t)(deployments.Create(&appsv1.Deployment{ObjectMeta: meta(name),
				Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: of}}))
		}
		b.settle(cluster.Deployments, cluster.ReplicaSets)
		var got []string
		for d := range deployments.All() {
			for _, c := range d.Status.Conditions {
				got = append(got, fmt.Sprint(d.Name, " ", c.Type, " ", c.Status, " ", c.Reason))
			}
		}
		rig.Same(t, "while no Pod is ready", []string{"a Available False MinimumReplicasUnavailable",
			"a Progressing True NewReplicaSetAvailable", "b Available False MinimumReplicasUnavailable",
			"b Progressing True NewReplicaSetAvailable"}, got)
		b.settle(cluster.Deployments, cluster.ReplicaSets, cluster.Pods)
		got = nil
		for rs := range sets.All() {
			name, _, _ := strings.Cut(rs.Name, "-")
			got = append(got, fmt.Sprint(name, " ", *rs.Spec.Replicas, " ", rs.Status.ReadyReplicas))
		}
		for d := range deployments.All() {
			got = append(got, fmt.Sprint(d.Name, " ", d.Status.Replicas, " ", d.Status.ReadyReplicas))
		}
		rig.Same(t, "what they have", []string{"a 1 1", "b 2 2", "c 3 3", "a 1 1", "b 2 2"}, got)
	})
}

// Endpoints have the Pods of a Service that have an address and have not ended, and say which are
// ready. Nodes become ready once, and claims are bound.
func TestServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		pods := lwtest.Objects[*corev1.Pod](b.server, "pods")
		for name, status := range map[string]corev1.PodStatus{
			"ready": {PodIP: "10.0.0.1", Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady,
				Status: corev1.ConditionTrue}}},
			"waits": {PodIP: "10.0.0.2", Phase: corev1.PodRunning}, "ended": {PodIP: "10.0.0.3", Phase: corev1.PodSucceeded},
			"new": {}, "other": {PodIP: "10.0.0.4", Phase: corev1.PodRunning},
		} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "a"}},
				Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}}, Status: status}
			if name == "other" {
				pod.Labels = nil
			}
			rig.Must[*corev1.Pod](t)(pods.Create(pod))
		}
		services := lwtest.Objects[*corev1.Service](b.server, "services")
		for name, spec := range map[string]corev1.ServiceSpec{
			"plain": {Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "named", Port: 81, TargetPort: intstr.FromString("x")}}},
			"headless": {ClusterIP: "None", PublishNotReadyAddresses: true}, "none": {},
		} {
			if name != "none" {
				spec.Selector = map[string]string{"app": "a"}
			}
			rig.Must[*corev1.Service](t)(services.Create(&corev1.Service{Spec: spec,
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
		}
		b.settle(cluster.Endpoints)
		show := func() (got []string) {
			for e := range lwtest.Objects[*corev1.Endpoints](b.server, "endpoints").All() {
				line := fmt.Sprint(e.Name, " ", e.Labels, " of ", e.OwnerReferences[0].Name, ":")
				for _, s := range e.Subsets {
					for _, a := range s.Addresses {
						line += " " + a.IP + " " + a.TargetRef.Name + " on " + *a.NodeName
					}
					for _, a := range s.NotReadyAddresses {
						line += " not " + a.IP + " " + a.TargetRef.Name
					}
					for _, p := range s.Ports {
						line += fmt.Sprintf(" %s %d %s", p.Name, p.Port, p.Protocol)
					}
				}
				got = append(got, line)
			}
			for e := range lwtest.Objects[*discoveryv1.EndpointSlice](b.server, "endpointslices").All() {
				line := fmt.Sprint("slice ", e.Labels, " ", e.AddressType, ":")
				for _, a := range e.Endpoints {
					line += fmt.Sprintf(" %s %s %t %t %t", a.Addresses, a.TargetRef.Name, *a.Conditions.Ready, *a.Conditions.Serving,
						*a.Conditions.Terminating)
				}
				for _, p := range e.Ports {
					line += fmt.Sprintf(" %s %d %s", *p.Name, *p.Port, *p.Protocol)
				}
				got = append(got, line)
			}
			return got
		}
		const labels = "slice map[endpointslice.kubernetes.io/managed-by:endpointslice-controller.k8s.io kubernetes.io/service-name:"
		const ports = " http 8080 TCP named 81 TCP"
		rig.Same(t, "the endpoints", []string{
			"headless map[service.kubernetes.io/headless:] of headless: 10.0.0.1 ready on n 10.0.0.2 waits on n",
			"plain map[] of plain: 10.0.0.1 ready on n not 10.0.0.2 waits" + ports,
			labels + "headless] IPv4: [10.0.0.1] ready true true false [10.0.0.2] waits true false false",
			labels + "plain] IPv4: [10.0.0.1] ready true true false [10.0.0.2] waits false false false" + ports,
		}, show())
		pod := rig.Must[*corev1.Pod](t)(pods.Get(lw.Key{Namespace: "default", Name: "ready"}))
		pod.Finalizers = []string{"example.com/kept"}
		rig.Must[*corev1.Pod](t)(pods.Update(pod))
		rig.OK(t, pods.Delete(lw.KeyOf(pod)))
		rig.OK(t, services.Delete(lw.Key{Namespace: "default", Name: "headless"}))
		b.settle(cluster.Endpoints)
		rig.Same(t, "when one is being deleted", []string{"plain map[] of plain: not 10.0.0.2 waits" + ports,
			labels + "plain] IPv4: [10.0.0.1] ready false true true [10.0.0.2] waits false false false" + ports}, show())

		nodes := lwtest.Objects[*corev1.Node](b.server, "nodes")
		for _, name := range []string{"fresh", "kept", "lost"} {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if name == "lost" {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
			}
			if n.Finalizers = []string{"example.com/kept"}; name == "fresh" {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}}
			}
			rig.Must[*corev1.Node](t)(nodes.Create(n))
		}
		rig.OK(t, nodes.Delete(lw.Key{Name: "kept"}))
		claims := lwtest.Objects[*corev1.PersistentVolumeClaim](b.server, "persistentvolumeclaims")
		for _, name := range []string{"bound", "gone"} {
			rig.Must[*corev1.PersistentVolumeClaim](t)(claims.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, Finalizers: []string{"example.com/kept"}}}))
		}
		rig.OK(t, claims.Delete(lw.Key{Namespace: "default", Name: "gone"}))
		b.did = nil
		b.settle(cluster.Nodes, cluster.Claims)
		rig.Same(t, "what the actors say", []string{"node fresh is ready", "claim default/bound is bound"}, b.did)
		var got []string
		for n := range nodes.All() {
			for _, c := range n.Status.Conditions {
				got = append(got, fmt.Sprintf("%s %s %s %s %v", n.Name, c.Type, c.Status, c.Reason, c.LastTransitionTime.IsZero()))
			}
		}
		for c := range claims.All() {
			got = append(got, fmt.Sprint(c.Name, " ", c.Status.Phase))
		}
		rig.Same(t, "the nodes and the claims", []string{"fresh DiskPressure False  true", "fresh Ready True KubeletReady false",
			"lost Ready False  true", "bound Bound", "gone Pending"}, got)
	})
}
