package pods

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

const (
	// ZoneLabel is the label of an object's zone. Only the last letter differs between zones.
	ZoneLabel = corev1.LabelTopologyZone
	// OtherZone is the last letter of a zone that no object has at first.
	OtherZone = 'x'
)

// replicas is the number of pods in a ReplicaSet of [Full].
const replicas = 10

// Full returns pod i as it would be in a real cluster, with 10 labels and two containers. It has
// about 8.5 KiB of JSON, 2.5 KiB of these managed fields, or 5.4 KiB of protobuf. The pods of one
// ReplicaSet differ as in a cluster: in name, UID, addresses, node, times and the name of their
// token volume.
func Full(i int) *corev1.Pod { return full(i, replicas) }

// full is Full with so many pods in a ReplicaSet.
func full(i, replicas int) *corev1.Pod {
	set := i / replicas
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	ofSet := rand.New(rand.NewPCG(2, uint64(set)))
	app := fmt.Sprintf("service-%d", set)
	hash := fmt.Sprintf("%08x", ofSet.Uint32())
	created := metav1.Date(2025, 5, 1+set%28, i%24, i%60, 0, 0, time.UTC)
	token := fmt.Sprintf("kube-api-access-%05x", rng.Uint32()&0xfffff)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:              fmt.Sprintf("%s-%s-%05x", app, hash, i),
			GenerateName:      fmt.Sprintf("%s-%s-", app, hash),
			Namespace:         fmt.Sprintf("team-%d", set%Namespaces),
			UID:               uid(rng),
			ResourceVersion:   Version(i),
			CreationTimestamp: created,
			Labels: map[string]string{
				"app.kubernetes.io/name":       app,
				"app.kubernetes.io/instance":   app + "-prod",
				"app.kubernetes.io/version":    fmt.Sprintf("v1.%d.%d", set%20, set%7),
				"app.kubernetes.io/component":  "backend",
				"app.kubernetes.io/part-of":    fmt.Sprintf("product-%d", set%10),
				"app.kubernetes.io/managed-by": "Helm",
				"environment":                  "production",
				"team":                         fmt.Sprintf("team-%d", set%Namespaces),
				ZoneLabel:                      fmt.Sprintf("eu-west-1%c", 'a'+i%3),
				"pod-template-hash":            hash,
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true",
				"prometheus.io/port":   "9090",
				"checksum/config": fmt.Sprintf("%016x%016x%016x%016x", ofSet.Uint64(), ofSet.Uint64(), ofSet.Uint64(),
					ofSet.Uint64()),
				"kubernetes.io/psp": "restricted",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: uid(ofSet),
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
			ManagedFields: managedFields(created),
		},
		Spec:   spec(app, token, i),
		Status: status(rng, created, i),
	}
}

// Restarted returns pod i of [Full] with another status, as the kubelet writes it when the
// containers have been started anew: they have other ids, the conditions other times, and its entry
// of the managed fields has the time of the write.
func Restarted(i int) *corev1.Pod {
	pod := Full(i)
	at := metav1.NewTime(pod.CreationTimestamp.Add(time.Hour))
	pod.Status = status(rand.New(rand.NewPCG(3, uint64(i))), at, i)
	pod.Status.StartTime = &pod.CreationTimestamp
	for c := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[c].RestartCount = 1
	}
	pod.ManagedFields[1].Time = &at
	return pod
}

func uid(rng *rand.Rand) types.UID {
	a, b := rng.Uint64(), rng.Uint64()
	return types.UID(fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff))
}

func spec(app, token string, i int) corev1.PodSpec {
	env := []corev1.EnvVar{
		{Name: "LOG_LEVEL", Value: "info"},
		{Name: "HTTP_PORT", Value: "8080"},
		{Name: "DATABASE_URL", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: app + "-db"}, Key: "url"}}},
		{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.name"}}},
		{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			APIVersion: "v1", FieldPath: "metadata.namespace"}}},
		{Name: "GOMEMLIMIT", Value: "900MiB"},
	}
	probe := func(path string, delay int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP}},
			InitialDelaySeconds: delay, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	resources := func(cpu, memory string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory)},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
		}
	}
	security := func() *corev1.SecurityContext {
		return &corev1.SecurityContext{
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			RunAsNonRoot:             ptr.To(true),
			ReadOnlyRootFilesystem:   ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(false),
		}
	}
	mounts := func(more ...corev1.VolumeMount) []corev1.VolumeMount {
		return append(more, corev1.VolumeMount{
			Name: token, ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
	}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}, DefaultMode: ptr.To[int32](420)}}},
			{Name: token, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: ptr.To[int32](420),
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607),
						Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
						Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
				}}}},
		},
		Containers: []corev1.Container{
			{
				Name: "app", Image: "registry.example.com/team/" + app + ":v1.2.3",
				Args: []string{"--config=/etc/app/config.yaml", "--v=2"},
				Ports: []corev1.ContainerPort{
					{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
					{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP},
				},
				Env: env, Resources: resources("250m", "1Gi"),
				VolumeMounts:  mounts(corev1.VolumeMount{Name: "config", ReadOnly: true, MountPath: "/etc/app"}),
				LivenessProbe: probe("/healthz", 15), ReadinessProbe: probe("/readyz", 5),
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy: corev1.PullIfNotPresent, SecurityContext: security(),
			},
			{
				Name: "proxy", Image: "registry.example.com/mesh/proxy:1.20.1", Args: []string{"proxy", "sidecar",
					"--log_output_level=default:info"},
				Ports: []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090, Protocol: corev1.ProtocolTCP}},
				Env:   env[3:5], Resources: resources("100m", "128Mi"), VolumeMounts: mounts(),
				ReadinessProbe:         probe("/healthz/ready", 1),
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy: corev1.PullIfNotPresent, SecurityContext: security(),
			},
		},
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: ptr.To[int64](30),
		DNSPolicy:          corev1.DNSClusterFirst,
		ServiceAccountName: app, DeprecatedServiceAccount: app, NodeName: fmt.Sprintf("ip-10-0-%d-%d.internal", i%16,
			i%Nodes/16),
		SecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](65534)}, SchedulerName: "default-scheduler",
		Tolerations: []corev1.Toleration{
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To[int64](300)},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To[int64](300)},
		},
		Priority: ptr.To[int32](0), EnableServiceLinks: ptr.To(true), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
	}
}

func status(rng *rand.Rand, created metav1.Time, i int) corev1.PodStatus {
	started := metav1.NewTime(created.Add(time.Duration(3+rng.IntN(9)) * time.Second))
	condition := func(t corev1.PodConditionType, at metav1.Time) corev1.PodCondition {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: at}
	}
	container := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Ready: true, Image: image, Started: ptr.To(true),
			State:   corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			ImageID: fmt.Sprintf("registry.example.com/%s@sha256:%064d", name, i/replicas),
			ContainerID: fmt.Sprintf("containerd://%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(),
				rng.Uint64()),
		}
	}
	ip := fmt.Sprintf("10.244.%d.%d", i/250%250, i%250)
	return corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			condition(corev1.PodReadyToStartContainers, created), condition(corev1.PodInitialized, created),
			condition(corev1.PodReady, started),
			condition(corev1.ContainersReady, started), condition(corev1.PodScheduled, created),
		},
		HostIP:  fmt.Sprintf("10.0.%d.%d", i%16, i%Nodes/16),
		HostIPs: []corev1.HostIP{{IP: fmt.Sprintf("10.0.%d.%d", i%16, i%Nodes/16)}},
		PodIP:   ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &created,
		ContainerStatuses: []corev1.ContainerStatus{
			container("app", "registry.example.com/team/app:v1.2.3"),
			container("proxy", "registry.example.com/mesh/proxy:1.20.1")},
		QOSClass: corev1.PodQOSBurstable,
	}
}
