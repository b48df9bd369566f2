//go:build race

package controllerruntime

// raceDetector says that the suite runs under the race detector too.
const raceDetector = true
