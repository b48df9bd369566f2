// Package measure has what the commands that measure servers share: the pods that they fill a server
// with, and what they read of its process.
package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodKey returns the key in etcd of pod i of a namespace.
func PodKey(namespace string, i int) string {
	return fmt.Sprintf("/registry/pods/%s/pod-%06d", namespace, i)
}

// Pod returns pod i of a namespace as it is put into etcd. restarts tells its versions apart. With
// each of the settings it has more bytes: 1.3 kB of JSON with one, 6 kB with 32.
func Pod(namespace string, i, restarts, settings int) []byte {
	name := fmt.Sprintf("pod-%06d", i)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + name),
			Labels:      map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "instance": name},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
		},
		Spec:   corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%100), RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255), HostIP: "10.0.0.7"},
	}
	for _, container := range []string{"web", "proxy"} {
		c := corev1.Container{Name: container, Image: "images.test/" + container + ":v1.2.3", ImagePullPolicy: corev1.PullIfNotPresent}
		for n := range settings {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", n), Value: fmt.Sprintf("the value of %s %d, %s", container, n, name)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container, Ready: true, Image: c.Image, ContainerID: "containerd://" + name + container, RestartCount: int32(restarts)})
	}
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return data
}

// ProcessStatus returns a line of the status of a process, such as VmRSS, in bytes.
func ProcessStatus(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("the status of process %d has no %s", pid, name)
}
