package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/go-lw/lw/lwtest"
)

// Jobs are the Job controller, with its two modes of completion, suspension, the back-off limit and
// the conditions that come before and after the end of the Pods. It knows no Pod failure policy, no
// limits by index, and no finalizers of Pods.
func Jobs(_ context.Context, s *lwtest.Server) (did string, err error) {
	for _, job := range all[*batchv1.Job](s, "jobs") {
		if job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName {
			continue
		}
		if did, err = syncJob(s, job); did != "" || err != nil {
			return did, err
		}
	}
	return "", nil
}

func jobCondition(job *batchv1.Job, t batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

// addCondition adds a condition, or changes its status.
func addCondition(job *batchv1.Job, t batchv1.JobConditionType, is bool, reason, message string) {
	c := batchv1.JobCondition{Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastProbeTime: now(), LastTransitionTime: now()}
	if is {
		c.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == t })
	switch {
	case i >= 0 && job.Status.Conditions[i].Status != c.Status:
		job.Status.Conditions[i] = c
	case i < 0 && is:
		job.Status.Conditions = append(job.Status.Conditions, c)
	}
}

// syncJob makes the next write of one Job.
func syncJob(s *lwtest.Server, job *batchv1.Job) (string, error) {
	was := job.Status.DeepCopy()
	var active, succeeded, failed []*corev1.Pod
	readyPods, terminating := int32(0), int32(0)
	indexes := map[string]bool{}
	for _, pod := range owned(s, job.UID) {
		index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			if job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion && indexes[index] {
				continue
			}
			succeeded, indexes[index] = append(succeeded, pod), true
		case pod.Status.Phase == corev1.PodFailed:
			failed = append(failed, pod)
		case pod.DeletionTimestamp != nil:
			terminating++
		default:
			if active = append(active, pod); ready(pod) {
				readyPods++
			}
		}
	}
	if job.DeletionTimestamp != nil || jobCondition(job, batchv1.JobComplete) || jobCondition(job, batchv1.JobFailed) {
		return "", nil // the collector sees to the Pods
	}
	indexed := *job.Spec.CompletionMode == batchv1.IndexedCompletion
	ending := jobCondition(job, batchv1.JobFailureTarget) || jobCondition(job, batchv1.JobSuccessCriteriaMet)
	suspended := *job.Spec.Suspend && !ending
	// The Pods first: one of them is deleted or made.
	if (ending || suspended) && len(active) > 0 {
		return deletePod(s, active[0])
	}
	want := *job.Spec.Parallelism
	if job.Spec.Completions != nil {
		want = min(want, *job.Spec.Completions-int32(len(succeeded)))
	} else if len(succeeded) > 0 {
		want = int32(len(active))
	}
	status := &job.Status
	if status.StartTime == nil && !suspended {
		at := now()
		status.StartTime = &at
	} else if suspended {
		status.StartTime = nil
	}
	status.Active, status.Succeeded, status.Failed = int32(len(active)), int32(len(succeeded)), int32(len(failed))
	status.Ready, status.Terminating = &readyPods, &terminating
	addCondition(job, batchv1.JobSuspended, suspended, map[bool]string{true: "JobSuspended", false: "JobResumed"}[suspended], "")
	complete := job.Spec.Completions != nil && int32(len(succeeded)) >= *job.Spec.Completions || job.Spec.Completions == nil && len(succeeded) > 0 && len(active) == 0
	const tooMany = "Job has reached the specified backoff limit"
	switch {
	case jobCondition(job, batchv1.JobFailureTarget):
		if terminating == 0 {
			addCondition(job, batchv1.JobFailed, true, batchv1.JobReasonBackoffLimitExceeded, tooMany)
		}
	case jobCondition(job, batchv1.JobSuccessCriteriaMet):
		if terminating == 0 {
			at := now()
			status.CompletionTime = &at
			addCondition(job, batchv1.JobComplete, true, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		}
	case int32(len(failed)) > *job.Spec.BackoffLimit:
		addCondition(job, batchv1.JobFailureTarget, true, batchv1.JobReasonBackoffLimitExceeded, tooMany)
	case complete:
		addCondition(job, batchv1.JobSuccessCriteriaMet, true, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
	}
	if !equality.Semantic.DeepEqual(was, status) {
		return update(s, "jobs", job, fmt.Sprintf("job %s has %d pods active, %d succeeded, %d failed", keyOf(job), status.Active, status.Succeeded, status.Failed))
	}
	switch {
	case suspended || ending || complete:
	case int32(len(active)) > want:
		return deletePod(s, victims(active)[0])
	case int32(len(active)) < want && terminating == 0:
		return jobPod(s, job, indexed, active, indexes)
	}
	return "", nil
}

// jobPod makes the next Pod of a Job.
func jobPod(s *lwtest.Server, job *batchv1.Job, indexed bool, active []*corev1.Pod, succeeded map[string]bool) (string, error) {
	if !indexed {
		return createPod(s, newPod(&job.Spec.Template, job, "batch/v1", "Job", job.Name+"-"+suffix(job.UID, s.ResourceVersion())))
	}
	running := map[string]bool{}
	for _, pod := range active {
		running[pod.Annotations[batchv1.JobCompletionIndexAnnotation]] = true
	}
	for i := range *job.Spec.Completions {
		index := strconv.Itoa(int(i))
		if running[index] || succeeded[index] {
			continue
		}
		pod := newPod(&job.Spec.Template, job, "batch/v1", "Job", job.Name+"-"+index+"-"+suffix(job.UID, s.ResourceVersion()))
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[batchv1.JobCompletionIndexAnnotation], pod.Labels[batchv1.JobCompletionIndexAnnotation] = index, index
		pod.Spec.Hostname = job.Name + "-" + index
		if did, err := createPod(s, pod); did != "" || err != nil {
			return did, err
		} // a webhook refuses this one; perhaps not the next
	}
	return "", nil
}

// sendDelete deletes an object as a client does: with its grace period.
func sendDelete(s *lwtest.Server, path, did string) (string, error) {
	w := &answer{header: http.Header{}}
	r, err := http.NewRequest(http.MethodDelete, path, http.NoBody)
	if err != nil {
		return "", err
	}
	if s.ServeHTTP(w, r); w.code >= 300 && w.code != http.StatusNotFound && w.code != http.StatusConflict {
		return "", fmt.Errorf("simulate: DELETE %s: %d %s", path, w.code, w.body)
	}
	return did, nil
}

// An answer is the answer to a request that needs no connection.
type answer struct {
	header http.Header
	code   int
	body   []byte
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(code int) { w.code = code }

func (w *answer) Write(b []byte) (int, error) {
	w.body = append(w.body, b...)
	return len(b), nil
}
