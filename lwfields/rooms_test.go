package main

import (
	"os/exec"
	"testing"
)

// No file uses one of a room above its own. This module does not depend on lw, whose test looks.
func TestRooms(t *testing.T) {
	cmd := exec.Command("go", "test", "-count=1", "-run=^TestModule$", "./internal/layers", "-module=lwfields")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
