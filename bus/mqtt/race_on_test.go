//go:build race

package mqtt_test

// slack is how much more memory the race detector needs for the same.
const slack = 5
