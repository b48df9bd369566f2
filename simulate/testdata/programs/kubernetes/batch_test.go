package kubernetes

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-lw/lw/simulate"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/cronjob"
	"k8s.io/kubernetes/pkg/controller/job"
)

func newJobs(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
	jobs, err := job.NewController(ctx, kube, shared.Core().V1().Pods(), shared.Batch().V1().Jobs(), nil, nil)
	return []runner{jobs.Run}, err
}

// One Job ends well, one has a Pod for each index, and one fails.
func TestJob(t *testing.T) {
	jobs := `
apiVersion: batch/v1
kind: Job
metadata: {name: a, namespace: default}
spec:
  completions: 3
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: b, namespace: default}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}
`
	fails := `
apiVersion: batch/v1
kind: Job
metadata: {name: c, namespace: default}
spec:
  backoffLimit: 1
  template:
    metadata: {annotations: {simulate.lw/fate: Failed}}
    spec: {restartPolicy: Never, containers: [{name: main, image: a}]}
`
	simulate.Run(t, simulate.World{
		Start: manager(newJobs), Actors: simulate.Actors{simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(jobs)
			w.Settle()
			w.Apply(fails)
			w.Settle()
			w.Delete(jobs)
		},
	})
}

// A CronJob makes a Job each minute for five minutes, and is then suspended.
func TestCronJob(t *testing.T) {
	cron := `
apiVersion: batch/v1
kind: CronJob
metadata: {name: c, namespace: default}
spec:
  schedule: "*/1 * * * *"
  suspend: false
  successfulJobsHistoryLimit: 2
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}}}
`
	simulate.Run(t, simulate.World{
		Start: manager(func(ctx context.Context, kube kubernetes.Interface, shared informers.SharedInformerFactory) ([]runner, error) {
			crons, err := cronjob.NewControllerV2(ctx, shared.Batch().V1().Jobs(), shared.Batch().V1().CronJobs(), kube)
			return []runner{crons.Run}, err
		}),
		Actors: simulate.Actors{simulate.Jobs, simulate.Pods},
		Steps: func(w *simulate.W) {
			w.Apply(cron)
			w.Pass(5 * time.Minute)
			w.Apply(strings.Replace(cron, "suspend: false", "suspend: true", 1))
		},
	})
}
