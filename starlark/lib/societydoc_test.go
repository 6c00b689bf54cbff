package lib_test

import (
	"strings"
	"testing"
)

// TestDocSocieties: the examples of the page are one robot, and its test runs.
func TestDocSocieties(t *testing.T) {
	list := blocks(t, "societies.md")
	last := len(list) - 1
	play(t, "-- main.star --\n"+strings.Join(list[:last], "\n")+"\n-- main_test.star --\n"+list[last])
}
