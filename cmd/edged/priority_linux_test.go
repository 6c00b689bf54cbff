package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestPriority: who stops the robot goes first where the system allows it, and an
// isolated script does not have the robot's priority.
func TestPriority(t *testing.T) {
	if do := os.Getenv("TEST_PRIORITY"); do != "" {
		map[string]func(){"hurry": hurry, "step back": stepBack}[do]()
		n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("nice=" + strconv.Itoa(20-n) + "\n")
		return
	}
	for _, c := range []struct {
		do         string
		from, want int
		root       bool
	}{
		{"hurry", 0, -20, true}, {"step back", -10, 0, true}, {"step back", 0, 0, false}, {"step back", 5, 5, false},
	} {
		t.Run(c.do+" from "+strconv.Itoa(c.from), func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root may go before others")
			}
			cmd := exec.Command("nice", "-n", strconv.Itoa(c.from), os.Args[0], "-test.run=^TestPriority$")
			cmd.Env = append(os.Environ(), "TEST_PRIORITY="+c.do)
			out, err := cmd.CombinedOutput()
			if want := "nice=" + strconv.Itoa(c.want) + "\n"; err != nil || !strings.Contains(string(out), want) {
				t.Errorf("got %s (%v), want %s", out, err, want)
			}
		})
	}
}
