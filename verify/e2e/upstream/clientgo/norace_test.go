//go:build !race

package clientgo

// raceEnabled builds the suites as the tests of this package are: without the race detector.
const raceEnabled = false
