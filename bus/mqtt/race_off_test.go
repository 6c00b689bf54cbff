//go:build !race

package mqtt_test

const slack = 1
