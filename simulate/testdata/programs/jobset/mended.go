//go:build mended

package jobset

import (
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
)

func recorder(mgr ctrl.Manager) events.EventRecorder { return mgr.GetEventRecorder("jobset") }
