//go:build !race

package controllerruntime

const raceDetector = false
