// Package boards runs what is shipped for other processors, under emulation:
// 32-bit atomics, the size of an int, memory maps and arithmetic are checked,
// speed is not.
package boards

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"edged/tests/peer"
)

var boards = []struct{ name, qemu, arch, arm, cpu string }{
	{"arm64", "qemu-aarch64", "arm64", "", "cortex-a53"},
	{"armv7", "qemu-arm", "arm", "7", "cortex-a7"},
	{"armv6", "qemu-arm", "arm", "6", "arm1176"},
}

// build compiles a program of ours for a board.
func build(t *testing.T, pkg, arch, arm string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOARM="+arm)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s for %s: %v\n%s", pkg, arch, err, text)
	}
	return out
}

func output(t *testing.T, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(in)
	var text, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, text.Bytes(), errs.Bytes())
	}
	return text.String()
}

func slow(t *testing.T) {
	t.Helper()
	if os.Getenv("EDGED_SLOW") == "" {
		t.Skip("takes minutes; `make slow` runs it")
	}
}

// TestTheModelSaysTheSame: the builtin model answers with the same calls.
func TestTheModelSaysTheSame(t *testing.T) {
	slow(t)
	quiet, err := os.ReadFile("../../agent/llm/builtin/testdata/quiet.txt")
	if err != nil {
		t.Fatal(err)
	}
	in := "turn left ninety degrees\ngo to the kitchen\nmove forward two and a half meters\nset the speed to half\n" +
		"what is the capital of france\npick up the red ball\nsay hello there\nhow warm is it\n"
	for line := range strings.Lines(string(quiet)) {
		if strings.TrimSpace(line) != "" && line[0] != '#' && strings.Count(in, "\n") < 60 {
			in += line
		}
	}
	want := output(t, in, build(t, "edged/tests/boards/say", "amd64", ""))
	if n := strings.Count(want, "turn{"); n == 0 {
		t.Fatalf("the model turns nothing:\n%s", want)
	}
	for _, b := range boards {
		t.Run(b.name, func(t *testing.T) {
			qemu := peer.Need(t, b.qemu, "qemu-user")
			got := output(t, in, qemu, "-cpu", b.cpu, build(t, "edged/tests/boards/say", b.arch, b.arm))
			if got == want {
				return
			}
			g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
			for i := range min(len(g), len(w)) {
				if g[i] != w[i] {
					t.Errorf("got  %s\nwant %s", g[i], w[i])
				}
			}
		})
	}
}

// TestBehavioursRun runs the tests of the behaviours that are shipped, with a
// board in a file.
func TestBehavioursRun(t *testing.T) {
	slow(t)
	for _, b := range boards {
		t.Run(b.name, func(t *testing.T) {
			qemu := peer.Need(t, b.qemu, "qemu-user")
			edged := build(t, "edged/cmd/edged", b.arch, b.arm)
			for _, dir := range []string{"home", "guard", "sensors"} {
				if text := output(t, "", qemu, "-cpu", b.cpu, edged, "test", "../../scripts/"+dir); !strings.Contains(text, "passed") && !strings.Contains(text, "ok") {
					t.Errorf("%s: %s", dir, text)
				}
			}
		})
	}
}
