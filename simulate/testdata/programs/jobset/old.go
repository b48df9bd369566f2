//go:build !mended

package jobset

import (
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
)

func recorder(mgr ctrl.Manager) record.EventRecorder { return mgr.GetEventRecorderFor("jobset") }
