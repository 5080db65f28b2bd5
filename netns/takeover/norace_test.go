//go:build !race

package takeover

const raceDetector = false
