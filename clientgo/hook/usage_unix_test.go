//go:build unix

package hook

import "testing"

// The peak of the memory is in bytes on every system.
func TestUsage(t *testing.T) {
	if user, system, peak := usage(); user+system <= 0 || peak < 1<<20 || peak > 1<<40 {
		t.Errorf("%v in the program, %v in the system, %d bytes", user, system, peak)
	}
}
