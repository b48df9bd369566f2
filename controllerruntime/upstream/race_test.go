//go:build race

package upstream

// raceDetector says that the suite runs under the race detector too.
const raceDetector = true
