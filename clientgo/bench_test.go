package clientgo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/verify/rig"
)

// BenchmarkReasons measures the way of an event from the bytes of a watch to the end of its key's
// run, without and with reasons, and when the run asks for them. The first comes first: what a
// queue with reasons turns on stays on. Without -run, tests have turned it on before.
func BenchmarkReasons(b *testing.B) {
	const objects = 1000
	for _, mode := range []string{"off", "on", "asked"} {
		b.Run(mode, func(b *testing.B) {
			events := modified(benchPods(b, objects, 1_000_000_000))
			client, written := podStream(benchPods(b, objects, 1))
			queue := recipeQueue()
			of := func(lw.Key) clientgo.ReasonList { return nil }
			if mode != "off" {
				reasons := clientgo.Reasons(queue, nil)
				queue = reasons
				if mode == "asked" {
					of = reasons.Of
				}
			}
			defer queue.ShutDown()
			inf := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: "https://server/api/v1/pods", Client: client,
				Accept: "application/json"}, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			inf.AddHandler(clientgo.Enqueue[*corev1.Pod](queue))
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go inf.Run(ctx)
			ran := make(chan int, objects)
			go func() {
				for {
					key, shutdown := queue.Get()
					if shutdown {
						return
					}
					list := of(key)
					queue.Done(key)
					ran <- len(list)
				}
			}()
			for range objects {
				<-ran
			}
			renumbered(b, events, func(i int) {
				event := events[i%objects]
				at := bytes.Index(event, []byte(`"phase":"`)) + len(`"phase":"`)
				copy(event[at:], []string{"Running", "Pending"}[(i+1)/objects%2])
				rig.Must[int](b)(written.Write(event))
				if got := <-ran; mode == "asked" && got != 1 {
					b.Fatalf("%d reasons", got)
				}
			})
		})
	}
}

// benchPod is a pod of 2 KiB, in JSON.
func benchPod(i int) *corev1.Pod {
	p := pod("default", fmt.Sprint("web-5d4f8b7c9-", i))
	p.UID, p.ResourceVersion = types.UID(fmt.Sprintf("0b8c5a52-1f0f-4a0e-9a5e-%012d", i)), strconv.Itoa(i+1)
	p.CreationTimestamp = metav1.Unix(1_700_000_000, 0)
	p.Labels = map[string]string{"app": "web", "pod-template-hash": "5d4f8b7c9", "team": "platform"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f8b7c9",
		UID: "9d2c"}}
	p.Spec.NodeName, p.Spec.ServiceAccountName = "node-7", "web"
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"),
		corev1.ResourceMemory: resource.MustParse("512Mi")}
	for _, name := range []string{"web", "proxy"} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example.com/platform/" + name + ":v1.24.3",
			Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
			Env:       []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "REGION", Value: "eu-central-1"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x7z9q", ReadOnly: true,
				MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true,
			Image: p.Spec.Containers[0].Image, RestartCount: int32(i)})
	}
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "10.1.2.3"
	for _, c := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True",
			LastTransitionTime: p.CreationTimestamp})
	}
	return p
}

// benchPods are pods in JSON, whose versions begin with from.
func benchPods(b *testing.B, n, from int) (all [][]byte) {
	for i := range n {
		p := benchPod(i)
		p.Kind, p.APIVersion, p.ResourceVersion = "Pod", "v1", strconv.Itoa(from+i)
		all = append(all, rig.Must[[]byte](b)(json.Marshal(p)))
	}
	return all
}

// modified are the events of a watch that tell of pods.
func modified(pods [][]byte) (events [][]byte) {
	for _, pod := range pods {
		events = append(events, fmt.Appendf(nil, "{\"type\":\"MODIFIED\",\"object\":%s}\n", pod))
	}
	return events
}

// podStream is a client of a server that lists pods, and whose watch says what is written.
func podStream(pods [][]byte) (client *http.Client, watch *io.PipeWriter) {
	send, watch := io.Pipe()
	return &http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: send}
		if r.URL.Query().Get("watch") == "" {
			list := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1000000000"},"items":[` +
				string(bytes.Join(pods, []byte(","))) + "]}"
			resp.Body = io.NopCloser(strings.NewReader(list))
		}
		return resp, nil
	})}, watch
}

const firstVersion = 2_000_000_001

// renumbered does f for one pod after the other, each with a new version of as many digits as it
// has, and returns how often.
func renumbered(b *testing.B, pods [][]byte, f func(i int)) (n int) {
	b.ReportAllocs()
	for ; b.Loop(); n++ {
		data := pods[n%len(pods)]
		at := bytes.Index(data, []byte(`"resourceVersion":"`)) + len(`"resourceVersion":"`)
		copy(data[at:], strconv.Itoa(firstVersion+n))
		f(n)
	}
	return n
}

// BenchmarkTellWrites compares a write that an informer is told of with an event of its watch, and
// with a write of what nobody follows. The server answers at once with bytes that it has.
func BenchmarkTellWrites(b *testing.B) {
	const objects = 1000
	for _, followed := range []string{"pods", "nodes"} {
		b.Run("a write, followed: "+followed, func(b *testing.B) {
			answers := benchPods(b, objects, 1_000_000_000)
			var answer []byte
			server := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
				resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(bytes.NewReader(answer))}
				switch {
				case r.URL.Query().Get("watch") != "":
					<-r.Context().Done()
					return nil, r.Context().Err()
				case r.Method == http.MethodGet:
					kind := map[string]string{"pods": "Pod", "nodes": "Node"}[followed]
					resp.Body = io.NopCloser(strings.NewReader(`{"kind":"` + kind +
						`List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
				}
				return resp, nil
			})
			client := clientgo.TellWrites(&http.Client{Transport: server})
			inf := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: "https://server/api/v1/" + followed, Client: client, Whole: true,
				Accept: "application/json"}, &lw.Options{List: lw.ListPages, OnError: func(error) {}})
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			go inf.Run(ctx)
			if followed == "pods" {
				rig.OK(b, inf.WaitForSync(ctx))
			}
			r := rig.Must[*http.Request](b)(http.NewRequest(http.MethodPut, "https://server/api/v1/namespaces/default/pods/x",
				nil))
			paths := make([]string, objects)
			for i := range paths {
				paths[i] = "/api/v1/namespaces/default/pods/" + benchPod(i).Name
			}
			b.SetBytes(int64(len(answers[0])))
			n := renumbered(b, answers, func(i int) {
				answer, r.URL.Path = answers[i%objects], paths[i%objects]
				resp := rig.Must[*http.Response](b)(client.Transport.RoundTrip(r))
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
			if have := inf.Store().Len(); followed == "pods" && have != min(n, objects) {
				b.Fatalf("%d objects", have)
			}
		})
	}
	b.Run("an event", func(b *testing.B) {
		events := modified(benchPods(b, objects, 1_000_000_000))
		client, written := podStream(benchPods(b, objects, 2))
		inf := lw.NewInformer(&lw.HTTP[*corev1.Pod]{URL: "https://server/api/v1/pods", Client: client, Whole: true,
			Accept: "application/json"}, &lw.Options{List: lw.ListPages, OnError: func(err error) { b.Error(err) }})
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go inf.Run(ctx)
		rig.OK(b, inf.WaitForSync(ctx))
		b.SetBytes(int64(len(events[0])))
		n := renumbered(b, events, func(i int) { rig.Must[int](b)(written.Write(events[i%objects])) })
		wait, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		rig.OK(b, inf.WaitForResourceVersion(wait, strconv.Itoa(firstVersion+n-1)))
	})
}
