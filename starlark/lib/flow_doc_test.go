package lib_test

import (
	"strings"
	"testing"
)

// TestDocWorkflows: the examples of the page are one robot, and its tests hold.
func TestDocWorkflows(t *testing.T) {
	list := blocks(t, "workflows.md")
	main := "def grasp_at(place):\n    \"\"\"Grasps.\n\n    Args:\n      place: one of left, right\n    \"\"\"\n" +
		strings.Join(list[:len(list)-1], "\n")
	play(t, "-- main.star --\n"+main+"\n-- main_test.star --\nload(\"main.star\", \"desk\", \"drive\", \"ticking\", \"tidy\")\n"+list[len(list)-1])
}

// TestDocGraphs: so are those of graphs.
func TestDocGraphs(t *testing.T) {
	list := blocks(t, "graphs.md")
	main := strings.ReplaceAll(strings.Join(list[:len(list)-1], "\n"), "robot/", "box/")
	test := strings.ReplaceAll(list[len(list)-1], "robot/", "box/")
	play(t, "-- main.star --\n"+main+"\n-- main_test.star --\nload(\"main.star\", \"g\", \"tidy\")\n"+test)
}
