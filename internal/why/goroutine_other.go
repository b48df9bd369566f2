//go:build !gc || !(amd64 || arm64) || purego

package why

import (
	"bytes"
	"runtime"
)

// goroutine returns the number that the calling goroutine has in stack traces.
func goroutine() (n uintptr) {
	var text [40]byte
	for _, c := range bytes.TrimPrefix(text[:runtime.Stack(text[:], false)], []byte("goroutine ")) {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + uintptr(c-'0')
	}
	return n
}
