package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/go-lw/lw/lwtest"
	kjson "sigs.k8s.io/json"
)

// set sets what is empty.
func set[T comparable](p *T, v T) {
	if *p == *new(T) {
		*p = v
	}
}

// point gives a pointer that is nil a value.
func point[T any](p **T, v T) {
	if *p == nil {
		*p = &v
	}
}

// setDefaults fills in what a server does.
func setDefaults(obj runtime.Object, create bool) {
	switch o := obj.(type) {
	case *corev1.Pod:
		podDefaults(&o.Spec)
		point(&o.Spec.EnableServiceLinks, true)
		set(&o.Status.Phase, corev1.PodPending)
		set(&o.Status.QOSClass, corev1.PodQOSBestEffort)
		set(&o.Spec.ServiceAccountName, "default")
	case *corev1.Service:
		serviceDefaults(&o.Spec)
	case *corev1.Secret:
		secretDefaults(o)
	case *corev1.Namespace:
		set(&o.Status.Phase, corev1.NamespaceActive)
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[corev1.LabelMetadataName] = o.Name
	case *corev1.PersistentVolumeClaim:
		point(&o.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		set(&o.Status.Phase, corev1.ClaimPending)
	case *batchv1.Job:
		jobDefaults(o, create)
	case *batchv1.CronJob:
		set(&o.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		point(&o.Spec.Suspend, false)
		point(&o.Spec.SuccessfulJobsHistoryLimit, int32(3))
		point(&o.Spec.FailedJobsHistoryLimit, int32(1))
		podDefaults(&o.Spec.JobTemplate.Spec.Template.Spec)
	case *appsv1.Deployment:
		point(&o.Spec.Replicas, int32(1))
		point(&o.Spec.RevisionHistoryLimit, int32(10))
		point(&o.Spec.ProgressDeadlineSeconds, int32(600))
		set(&o.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if o.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			point(&o.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
			point(&o.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
			point(&o.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		}
		podDefaults(&o.Spec.Template.Spec)
	case *appsv1.DaemonSet:
		point(&o.Spec.RevisionHistoryLimit, int32(10))
		set(&o.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
		if o.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			point(&o.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
			point(&o.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			point(&o.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		podDefaults(&o.Spec.Template.Spec)
	case *corev1.ReplicationController:
		point(&o.Spec.Replicas, int32(1))
		if o.Spec.Template != nil {
			podDefaults(&o.Spec.Template.Spec)
		}
	case *appsv1.ReplicaSet:
		point(&o.Spec.Replicas, int32(1))
		podDefaults(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		point(&o.Spec.Replicas, int32(1))
		point(&o.Spec.RevisionHistoryLimit, int32(10))
		set(&o.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
		set(&o.Spec.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
		if o.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
			point(&o.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
			point(&o.Spec.UpdateStrategy.RollingUpdate.Partition, int32(0))
		}
		point(&o.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
		set(&o.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		set(&o.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
		for i := range o.Spec.VolumeClaimTemplates {
			setDefaults(&o.Spec.VolumeClaimTemplates[i], create)
		}
		podDefaults(&o.Spec.Template.Spec)
	}
}

func secretDefaults(o *corev1.Secret) {
	set(&o.Type, corev1.SecretTypeOpaque)
	for name, text := range o.StringData {
		if o.Data == nil {
			o.Data = map[string][]byte{}
		}
		o.Data[name] = []byte(text)
	}
	o.StringData = nil
}

func serviceDefaults(s *corev1.ServiceSpec) {
	set(&s.Type, corev1.ServiceTypeClusterIP)
	set(&s.SessionAffinity, corev1.ServiceAffinityNone)
	if s.Type != corev1.ServiceTypeExternalName {
		point(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		set(&p.Protocol, corev1.ProtocolTCP)
		set(&p.TargetPort, intstr.FromInt32(p.Port))
	}
	if s.Type != corev1.ServiceTypeExternalName && s.ClusterIP == "" {
		s.ClusterIP = "10.96.0.1"
	}
	if s.ClusterIP != "" && s.ClusterIPs == nil {
		s.ClusterIPs = []string{s.ClusterIP}
		s.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		point(&s.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	}
}

func podDefaults(s *corev1.PodSpec) {
	set(&s.RestartPolicy, corev1.RestartPolicyAlways)
	set(&s.DNSPolicy, corev1.DNSClusterFirst)
	set(&s.SchedulerName, corev1.DefaultSchedulerName)
	point(&s.TerminationGracePeriodSeconds, int64(corev1.DefaultTerminationGracePeriodSeconds))
	point(&s.SecurityContext, corev1.PodSecurityContext{})
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			set(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
			set(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
			set(&c.ImagePullPolicy, pullPolicy(c.Image))
			for j := range c.Ports {
				set(&c.Ports[j].Protocol, corev1.ProtocolTCP)
			}
			for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
				if probe != nil {
					set(&probe.TimeoutSeconds, 1)
					set(&probe.PeriodSeconds, 10)
					set(&probe.SuccessThreshold, 1)
					set(&probe.FailureThreshold, 3)
				}
			}
		}
	}
}

// pullPolicy is that of an image by default: one without a tag is the latest.
func pullPolicy(image string) corev1.PullPolicy {
	name, _, digest := strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":")
	if !tagged && !digest || tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func jobDefaults(o *batchv1.Job, create bool) {
	if o.Spec.Completions == nil && o.Spec.Parallelism == nil {
		point(&o.Spec.Completions, int32(1))
	}
	point(&o.Spec.Parallelism, int32(1))
	point(&o.Spec.BackoffLimit, int32(6))
	point(&o.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	point(&o.Spec.Suspend, false)
	point(&o.Spec.ManualSelector, false)
	if o.Spec.PodReplacementPolicy == nil {
		policy := batchv1.TerminatingOrFailed
		if o.Spec.PodFailurePolicy != nil {
			policy = batchv1.Failed
		}
		o.Spec.PodReplacementPolicy = &policy
	}
	podDefaults(&o.Spec.Template.Spec)
	if !create || *o.Spec.ManualSelector {
		return
	}
	uid := string(o.UID)
	t := &o.Spec.Template
	t.Labels = maps.Clone(t.Labels)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	for _, prefix := range []string{"", "batch.kubernetes.io/"} {
		t.Labels[prefix+"controller-uid"], t.Labels[prefix+"job-name"] = uid, o.Name
	}
	o.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: uid}}
	if len(o.Labels) == 0 {
		o.Labels = maps.Clone(t.Labels)
	}
}

// immutable refuses an update of what a server lets nobody change.
func immutable(_ context.Context, a lwtest.Admission) error {
	if a.Verb != lwtest.Update {
		return nil
	}
	var kind, path string
	var was, is any
	switch o := a.Object.(type) {
	case *appsv1.Deployment:
		kind, path, is, was = "Deployment", "spec.selector", o.Spec.Selector, a.Old.(*appsv1.Deployment).Spec.Selector
	case *appsv1.ReplicaSet:
		kind, path, is, was = "ReplicaSet", "spec.selector", o.Spec.Selector, a.Old.(*appsv1.ReplicaSet).Spec.Selector
	case *appsv1.StatefulSet:
		old := a.Old.(*appsv1.StatefulSet).Spec
		next := o.Spec
		// All else may not change.
		next.Replicas, next.Template, next.UpdateStrategy, next.RevisionHistoryLimit = old.Replicas, old.Template,
			old.UpdateStrategy, old.RevisionHistoryLimit
		next.PersistentVolumeClaimRetentionPolicy, next.MinReadySeconds,
			next.Ordinals = old.PersistentVolumeClaimRetentionPolicy, old.MinReadySeconds, old.Ordinals
		kind, path, is, was = "StatefulSet", "spec", next, old
	case *batchv1.Job:
		old := a.Old.(*batchv1.Job)
		if old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
			return nil // such a Job may still be placed
		}
		kind, path, is, was = "Job", "spec.template", o.Spec.Template.Spec, old.Spec.Template.Spec
	case *corev1.Pod:
		old := a.Old.(*corev1.Pod).Spec
		next := o.Spec
		if len(next.Containers) != len(old.Containers) {
			kind, path, is, was = "Pod", "spec.containers", len(next.Containers), len(old.Containers)
			break
		}
		next.Containers, next.InitContainers, next.NodeName, next.Tolerations = old.Containers, old.InitContainers,
			old.NodeName, old.Tolerations
		next.ActiveDeadlineSeconds, next.TerminationGracePeriodSeconds, next.SchedulingGates = old.ActiveDeadlineSeconds,
			old.TerminationGracePeriodSeconds, old.SchedulingGates
		next.NodeSelector, next.Affinity = old.NodeSelector, old.Affinity
		kind, path, is, was = "Pod", "spec", next, old
	default:
		return nil
	}
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(path), "a "+kind+
		" may not change here: field is immutable")}.ToAggregate()
}

// convert makes to of from, through JSON.
func convert(from, to runtime.Object) error {
	data, err := json.Marshal(from)
	if err == nil {
		if u, ok := to.(*unstructured.Unstructured); ok {
			kind, status := u.GroupVersionKind(), u.Object["status"]
			u.Object = map[string]any{}
			if err = kjson.UnmarshalCaseSensitivePreserveInts(data, &u.Object); err == nil {
				u.SetGroupVersionKind(kind)
				// A webhook of the object does not change its status, but a Go type writes an empty one.
				if u.Object["status"] = status; status == nil {
					delete(u.Object, "status")
				}
			}
			return err
		}
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("simulate: %T as %T: %w", from, to, err)
	}
	return nil
}
