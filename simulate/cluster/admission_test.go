package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
	"github.com/go-lw/lw/simulate/cluster"
)

// A thing is a custom resource as a webhook of it has it.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Size int `json:"size"`
	} `json:"spec"`
	Status struct {
		Done int `json:"done"`
	} `json:"status"`
}

func (o *thing) DeepCopyObject() runtime.Object { c := *o; return &c }

// A webhook sees objects of its type, changes all of them but their status, and is asked about what
// it is for.
func TestAdmitTyped(t *testing.T) {
	var seen []string
	things := lwtest.Resource{Group: "example.com", Plural: "things", Kind: "Thing", Status: true}
	others := lwtest.Resource{Group: "example.com", Plural: "others", Kind: "Other"}
	hook := cluster.Admission{Group: "example.com", Plural: "things", Object: &thing{},
		Default: func(_ context.Context, a lwtest.Admission) error {
			o := a.Object.(*thing)
			o.Spec.Size, o.Status.Done, o.Kind = o.Spec.Size+1, 9, "Other"
			return nil
		},
		Validate: func(_ context.Context, a lwtest.Admission) error {
			old := "nothing"
			if a.Old != nil {
				old = fmt.Sprint(a.Old.(*thing).Spec.Size)
			}
			seen = append(seen, fmt.Sprintf("%s: %d in place of %s", a.Verb, a.Object.(*thing).Spec.Size, old))
			if a.Object.(*thing).Spec.Size > 9 {
				return errors.New("too big")
			}
			return nil
		}}
	synctest.Test(t, func(t *testing.T) {
		s := lwtest.NewServer(t, cluster.Admit([]lwtest.Resource{things, others}, hook)...)
		b := &bench{t: t, server: s}
		const path = "/apis/example.com/v1/namespaces/d/things"
		merge := "application/merge-patch+json"
		for _, step := range []struct {
			method, path, body string
			code               int
			want               string // the spec and the status, or the message
		}{
			{"POST", path, `{"metadata":{"name":"a"},"spec":{"size":1}}`, 201, "Thing map[size:2] <nil>"},
			{"PATCH", path + "/a", `{"spec":{"size":4}}`, 200, "Thing map[size:5] <nil>"},
			{"PATCH", path + "/a/status", `{"status":{"done":3}}`, 200, "Thing map[size:5] map[done:3]"},
			{"PATCH", path + "/a", `{"spec":{"size":6}}`, 200, "Thing map[size:7] map[done:3]"},
			{"PATCH", path + "/a", `{"spec":{"size":9}}`, 422, "too big"},
			{"PATCH", path + "/a", `{"spec":{"size":"x"}}`, 422, "simulate: *unstructured.Unstructured as *cluster_test.thing: json: "},
			{"POST", strings.Replace(path, "things", "others", 1), `{"metadata":{"name":"a"},"spec":{"size":1}}`, 201,
				"Other map[size:1] <nil>"},
		} {
			contentType := map[string]string{"POST": "application/json", "PATCH": merge}[step.method]
			code, got := request(t, b, step.method, step.path, contentType, step.body)
			text := fmt.Sprint(got["kind"], " ", got["spec"], " ", got["status"])
			if code >= 400 {
				text = fmt.Sprint(got["message"])
			}
			if code != step.code || !strings.Contains(text, step.want) {
				t.Errorf("%s %s: %d %s, want %d %s", step.path, step.body, code, text, step.code, step.want)
			}
		}
		rig.Same(t, "what is seen", []string{"create: 2 in place of nothing", "update: 5 in place of 2", "update: 7 in place of 5",
			"update: 10 in place of 7"}, seen)
	})
}

// Webhooks change and refuse writes, also those of actors, which try again when the webhook allows
// it.
func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		b := newBench(t, cluster.Admission{
			Plural: "pods",
			Default: func(_ context.Context, a lwtest.Admission) error {
				a.Object.(*corev1.Pod).Spec.NodeSelector = map[string]string{"zone": "a"}
				return nil
			},
			Validate: func(_ context.Context, a lwtest.Admission) error {
				if a.Verb == lwtest.Create && !open {
					return errors.New("not yet")
				}
				return nil
			},
		})
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "b"}}}
		rig.Must[*corev1.Node](t)(b.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Template: template(nil, "")}}
		rig.Must[*batchv1.Job](t)(b.client.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}))
		if b.settle(cluster.Jobs, cluster.Pods, cluster.Nodes); b.pods() != nil {
			t.Errorf("the webhook has refused %v", b.pods())
		}
		open = true
		b.settle(cluster.Jobs, cluster.Pods)
		if diff := gocmp.Diff([]string{"j Pending"}, b.pods()); diff != "" {
			t.Errorf("no node has the labels: (-want +got)\n%s", diff)
		}
		for _, taints := range [][]corev1.Taint{{{Key: "new", Effect: corev1.TaintEffectNoExecute}}, {{Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}} {
			for pod := range lwtest.Objects[*corev1.Pod](b.server, "pods").All() {
				if c := pod.Status.Conditions; len(c) != 1 || c[0].Reason != corev1.PodReasonUnschedulable {
					t.Errorf("the conditions are %+v, want that the Pod is unschedulable", c)
				}
			}
			nodes := lwtest.Objects[*corev1.Node](b.server, "nodes")
			n := rig.Must[*corev1.Node](t)(nodes.Get(lw.Key{Name: "n"}))
			n.Labels["zone"], n.Spec.Taints = "a", taints
			rig.Must[*corev1.Node](t)(nodes.Update(n))
			b.settle(cluster.Jobs, cluster.Pods)
		}
		if diff := gocmp.Diff([]string{"j Succeeded"}, b.pods()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
