package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/go-lw/lw/e2e/internal/servers"
)

const (
	namespace      = "load"
	sentAnnotation = "lw.test/sent" // when a write was sent, in Unix nanoseconds
	lastName       = "last"         // the object of each collection that is written last
)

// seed writes the objects directly into etcd, before the server starts.
func seed(ctx context.Context, s *servers.Server, objects int) error {
	values := map[string][]byte{}
	put := func(resource, name string, obj any) error {
		data, err := json.Marshal(obj)
		values["/registry/"+resource+"/"+namespace+"/"+name] = data
		return err
	}
	for i := range objects {
		if err := put("pods", objectName(i), pod(objectName(i))); err != nil {
			return err
		}
		if err := put("configmaps", objectName(i), configMap(objectName(i))); err != nil {
			return err
		}
	}
	if err := put("pods", lastName, pod(lastName)); err != nil {
		return err
	}
	if err := put("configmaps", lastName, configMap(lastName)); err != nil {
		return err
	}
	return s.Put(ctx, values)
}

func objectName(i int) string { return fmt.Sprintf("object-%05d", i) }

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID("uid-" + name),
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
		Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop",
			"pod-template-hash": "7c5ddbdf54", "instance": name},
		Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
	}
}

// pod returns a Pod of about 4 kB JSON: two containers with environment, probes, resources and
// mounts, and their status.
func pod(name string) *corev1.Pod {
	probe := &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3, SuccessThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/healthy", "--quiet"}}}}
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: objectMeta(name)}
	p.Spec = corev1.PodSpec{
		NodeName: "node-" + name[len(name)-2:], RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst,
		ServiceAccountName: "web", SchedulerName: "default-scheduler",
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}}},
	}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.2.3", HostIP: "10.0.0.7", QOSClass: corev1.PodQOSBurstable}
	for _, c := range []string{"web", "proxy"} {
		var env []corev1.EnvVar
		for i := range 6 {
			env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", i), Value: fmt.Sprintf("value of %s %d", c, i)})
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: c, Image: "images.test/" + c + ":v1.2.3", Env: env, LivenessProbe: probe, ReadinessProbe: probe,
			ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			VolumeMounts:             []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web", ReadOnly: true}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, Ready: true, Image: "images.test/" + c + ":v1.2.3", ImageID: "sha256:0123456789abcdef0123456789abcdef",
			ContainerID: "containerd://" + name + c})
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	return p
}

// configMap returns a ConfigMap of about 700 bytes of JSON.
func configMap(name string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: objectMeta(name), Data: map[string]string{}}
	for i := range 5 {
		c.Data[fmt.Sprintf("key-%d", i)] = fmt.Sprintf("the value of key %d of %s", i, name)
	}
	return c
}

// A storm is a number of writers. Each has its own objects.
type storm struct {
	writers []*writer
	set     *kubernetes.Clientset
	written atomic.Int64
}

type writer struct {
	pods []*corev1.Pod // a writer has pods or maps; a single one has both
	maps []*corev1.ConfigMap
}

func newStorm(ctx context.Context, s *servers.Server, writers int) (*storm, error) {
	cfg := s.Config()
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	pods, err := set.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	maps, err := set.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != len(maps.Items) {
		return nil, fmt.Errorf("%d Pods and %d ConfigMaps were seeded", len(pods.Items), len(maps.Items))
	}
	storm := &storm{set: set}
	for range writers {
		storm.writers = append(storm.writers, &writer{})
	}
	for i := range pods.Items {
		if pods.Items[i].Name == lastName {
			continue
		}
		// Writers with an even number write Pods, the others ConfigMaps.
		w := storm.writers[i%((writers+1)/2)*2]
		w.pods = append(w.pods, &pods.Items[i])
		if writers > 1 {
			w = storm.writers[i%(writers/2)*2+1]
		}
		w.maps = append(w.maps, &maps.Items[i])
	}
	return storm, nil
}

// blow writes for d, and then writes the last object of each collection. written counts all writes.
func (s *storm) blow(ctx context.Context, d time.Duration) error {
	s.written.Store(0)
	blowing, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	errs := make(chan error, len(s.writers))
	var running sync.WaitGroup
	for _, w := range s.writers {
		running.Go(func() {
			if err := s.write(blowing, w); err != nil {
				errs <- err
			}
		})
	}
	running.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	if err := s.writePod(ctx, pod(lastName)); err != nil {
		return err
	}
	return s.writeMap(ctx, configMap(lastName))
}

func (s *storm) write(ctx context.Context, w *writer) error {
	for i := 0; ctx.Err() == nil; i++ {
		// Finish a write that was begun, so that no write comes after the end of the storm.
		finish := context.WithoutCancel(ctx)
		if len(w.pods) > 0 {
			if err := s.writePod(finish, w.pods[i%len(w.pods)]); err != nil {
				return err
			}
		}
		if len(w.maps) > 0 {
			if err := s.writeMap(finish, w.maps[i%len(w.maps)]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *storm) writePod(ctx context.Context, p *corev1.Pod) error {
	markSent(p)
	_, err := s.set.CoreV1().Pods(namespace).Update(ctx, p, metav1.UpdateOptions{})
	s.written.Add(1)
	return err
}

func (s *storm) writeMap(ctx context.Context, c *corev1.ConfigMap) error {
	markSent(c)
	_, err := s.set.CoreV1().ConfigMaps(namespace).Update(ctx, c, metav1.UpdateOptions{})
	s.written.Add(1)
	return err
}

// markSent prepares obj for an update of the current version, whatever that is, and notes the time.
func markSent(obj metav1.Object) {
	obj.SetResourceVersion("")
	obj.GetAnnotations()[sentAnnotation] = strconv.FormatInt(time.Now().UnixNano(), 10)
}
