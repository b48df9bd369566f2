package controllerruntime_test

import (
	"os"
	"testing"

	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw/internal/history"
)

func TestMain(m *testing.M) {
	history.FromOne = true                 // tests name the versions of a Memory
	metricsserver.DefaultBindAddress = "0" // no port: a bubble does not know when a socket waits
	os.Exit(m.Run())
}
