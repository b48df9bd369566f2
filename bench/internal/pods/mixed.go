package pods

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// mixedReplicas is the number of pods in a workload of [Mixed].
const mixedReplicas = 3

// Mixed returns pod i of a cluster of many small workloads. The three pods of one have the same
// spec, as those of [Full] have, and each workload has another: other containers, variables,
// volumes, probes, and other fields that are left out. The statuses differ from pod to pod. So no
// pod has the names and brackets of the one before but by chance, and its elements have those of
// other elements. The size is about that of Full, on average.
func Mixed(i int) *corev1.Pod {
	pod := full(i, mixedReplicas)
	rng := rand.New(rand.NewPCG(4, uint64(i/mixedReplicas)))
	m := mixer{rng, pod.Labels["app.kubernetes.io/name"]}
	m.meta(pod)
	m.spec(&pod.Spec)
	m.rng = rand.New(rand.NewPCG(5, uint64(i)))
	m.status(pod, pod.CreationTimestamp)
	return pod
}

// MixedRestarted is [Restarted] of a pod of [Mixed].
func MixedRestarted(i int) *corev1.Pod {
	pod := Mixed(i)
	at := metav1.NewTime(pod.CreationTimestamp.Add(time.Hour))
	m := mixer{rand.New(rand.NewPCG(6, uint64(i))), pod.Labels["app.kubernetes.io/name"]}
	m.status(pod, at)
	pod.Status.StartTime = &pod.CreationTimestamp
	pod.ManagedFields[1].Time = &at
	return pod
}

// A mixer draws what differs between workloads.
type mixer struct {
	rng *rand.Rand
	app string
}

// maybe is true for one of n.
func (m mixer) maybe(n int) bool { return m.rng.IntN(n) == 0 }

// some returns a few of all, in their order.
func some[E any](m mixer, all ...E) []E {
	return slices.DeleteFunc(slices.Clone(all), func(E) bool { return m.maybe(2) })
}

func (m mixer) meta(pod *corev1.Pod) {
	for _, name := range some(m, "app.kubernetes.io/instance", "app.kubernetes.io/component",
		"app.kubernetes.io/managed-by", "environment") {
		delete(pod.Labels, name)
	}
	for _, name := range some(m, "prometheus.io/scrape", "prometheus.io/port", "kubernetes.io/psp") {
		delete(pod.Annotations, name)
	}
	owner := &pod.OwnerReferences[0]
	switch m.rng.IntN(8) {
	case 0:
		owner.Kind = "StatefulSet"
	case 1:
		owner.Kind, owner.BlockOwnerDeletion = "DaemonSet", nil
	case 2:
		owner.APIVersion, owner.Kind = "batch/v1", "Job"
	}
	if m.maybe(4) {
		pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
	}
}

func (m mixer) spec(s *corev1.PodSpec) {
	app, proxy, token := s.Containers[0], s.Containers[1], s.Volumes[1]
	s.Volumes = append(m.volumes(s.Volumes[0]), token)
	s.Containers = []corev1.Container{m.container(app, s.Volumes)}
	if m.maybe(4) {
		c := m.container(app, s.Volumes)
		c.Name, c.Image = "exporter", "registry.example.com/tools/exporter:2.0"
		s.Containers = append(s.Containers, c)
	}
	if m.maybe(2) {
		s.Containers = append(s.Containers, proxy)
	}
	if m.maybe(4) {
		c := m.container(app, s.Volumes)
		c.Name, c.LivenessProbe, c.ReadinessProbe, c.Ports, c.Lifecycle = "migrate", nil, nil, nil, nil
		s.InitContainers = []corev1.Container{c}
	}
	if m.maybe(3) {
		s.NodeSelector = map[string]string{"kubernetes.io/os": "linux", "pool": fmt.Sprint("pool-", m.rng.IntN(4))}
	}
	if m.maybe(3) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": m.app}}},
		}}}}
	}
	if m.maybe(4) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname,
			WhenUnsatisfiable: corev1.ScheduleAnyway}}
	}
	for range m.rng.IntN(3) {
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpEqual,
			Value: m.app, Effect: corev1.TaintEffectNoSchedule})
	}
	if m.maybe(3) {
		s.PriorityClassName, s.Priority = "high", ptr.To[int32](1000)
	}
	if m.maybe(3) {
		s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	}
	if m.maybe(4) {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if m.maybe(4) {
		s.HostNetwork, s.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	}
}

// volumes draws volumes, the first of which may be config.
func (m mixer) volumes(config corev1.Volume) []corev1.Volume {
	return some(m, config,
		corev1.Volume{Name: "certs", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: m.app +
			"-tls", DefaultMode: ptr.To[int32](420)}}},
		corev1.Volume{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		corev1.Volume{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("64Mi"))}}},
		corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: m.app + "-data"}}},
	)
}

// container draws a container that has a part of what c has, and more.
func (m mixer) container(c corev1.Container, volumes []corev1.Volume) corev1.Container {
	settings := func() (env []corev1.EnvVar) {
		for n := range m.rng.IntN(6) {
			env = append(env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", n), Value: fmt.Sprintf("value %d of %s", n, m.app)})
		}
		return env
	}
	from := corev1.EnvVar{Name: "MODE", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: m.app + "-config"}, Key: "mode", Optional: ptr.To(true)}}}
	c.Env = append(append(some(m, c.Env...), settings()...), some(m, from)...)
	c.Args = some(m, c.Args...)
	c.Ports = some(m, c.Ports...)
	if m.maybe(3) {
		c.Command = []string{"/bin/" + m.app, "serve"}
	}
	if m.maybe(3) {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: m.app}}}}
	}
	switch m.rng.IntN(4) {
	case 0:
		c.LivenessProbe = nil
	case 1:
		p := *c.LivenessProbe
		p.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}
		c.LivenessProbe = &p
	case 2:
		p := *c.LivenessProbe
		p.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/bin/healthy", "--quick"}}}
		c.LivenessProbe = &p
	}
	if m.maybe(3) {
		c.ReadinessProbe = nil
	}
	if m.maybe(4) {
		c.Resources = corev1.ResourceRequirements{}
	} else if m.maybe(3) {
		c.Resources.Limits = nil
	}
	if m.maybe(2) {
		c.SecurityContext = nil
	}
	if m.maybe(4) {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep",
			"5"}}}}
	}
	c.VolumeMounts = nil
	for _, v := range volumes {
		mount := corev1.VolumeMount{Name: v.Name, MountPath: "/mnt/" + v.Name, ReadOnly: m.maybe(2)}
		if m.maybe(4) {
			mount.SubPath = "part"
		}
		c.VolumeMounts = append(c.VolumeMounts, mount)
	}
	return c
}

// status draws the status of a pod whose last change was at at. One container of six has been
// restarted, and one pod of eight is not ready.
func (m mixer) status(pod *corev1.Pod, at metav1.Time) {
	s := &pod.Status
	image := s.ContainerStatuses[0].ImageID
	statusOf := func(c corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: c.Name, Ready: true, Image: c.Image, ImageID: image, Started: ptr.To(true),
			ContainerID: fmt.Sprintf("containerd://%016x%016x%016x%016x", m.rng.Uint64(), m.rng.Uint64(), m.rng.Uint64(),
				m.rng.Uint64()),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}}
	}
	ended := func(reason string, code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: at, FinishedAt: at,
			ContainerID: image}
	}
	s.ContainerStatuses, s.InitContainerStatuses = nil, nil
	for _, c := range pod.Spec.Containers {
		state := statusOf(c)
		if m.maybe(6) {
			state.RestartCount, state.LastTerminationState.Terminated = int32(1+m.rng.IntN(9)), ended("Error", 1)
		}
		s.ContainerStatuses = append(s.ContainerStatuses, state)
	}
	for _, c := range pod.Spec.InitContainers {
		state := statusOf(c)
		state.State = corev1.ContainerState{Terminated: ended("Completed", 0)}
		s.InitContainerStatuses = append(s.InitContainerStatuses, state)
	}
	if m.maybe(8) {
		state := &s.ContainerStatuses[0]
		state.Ready, state.Started, state.State = false, ptr.To(false),
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"}}
		for n := range s.Conditions {
			if c := &s.Conditions[n]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [app]"
			}
		}
	}
}
