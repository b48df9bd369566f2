package clientgo_test

import (
	"testing"

	"github.com/go-lw/lw/internal/layers"
	"github.com/go-lw/lw/internal/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// No file uses one of a room above its own.
func TestRooms(t *testing.T) {
	rig.OK(t, layers.HoldModule("..", "clientgo"))
}
