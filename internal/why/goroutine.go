//go:build gc && (amd64 || arm64) && !purego

package why

// goroutine returns what tells the goroutines that run at this moment apart: where the runtime
// keeps the calling one. It is compared, and never followed, so it depends on nothing that a
// version of Go may change. The number in a stack trace says the same, and takes as long as a tenth
// of an event.
func goroutine() uintptr
