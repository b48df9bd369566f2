//go:build race

package decode

// Under the race detector a sync.Pool forgets at random what CBOR needs for each event.
func init() { mostPassed = 1.5 }
