package clientgo_test

import (
	"os"
	"testing"

	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/layers"
)

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	os.Exit(m.Run())
}

// No file uses one of a room above its own.
func TestRooms(t *testing.T) {
	if err := layers.HoldModule("..", "clientgo"); err != nil {
		t.Error(err)
	}
}
