//go:build race

package clientgo

// raceEnabled builds the suites with the race detector, as the tests of this package are.
const raceEnabled = true
