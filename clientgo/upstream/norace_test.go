//go:build !race

package upstream

// raceEnabled builds the suites as the tests of this package are: without the race detector.
const raceEnabled = false
