package controllerruntime_test

import (
	"os"
	"testing"

	"github.com/go-lw/lw/internal/history"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	os.Exit(m.Run())
}
