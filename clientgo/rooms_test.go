package clientgo_test

import (
	"testing"

	"github.com/go-lw/lw/internal/layers"
)

// No file uses one of a room above its own.
func TestRooms(t *testing.T) {
	if err := layers.HoldModule("..", "clientgo"); err != nil {
		t.Error(err)
	}
}
