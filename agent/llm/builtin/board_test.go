package builtin_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBoards: builds for the boards give the same calls as this one. They run
// under qemu-user, so only in the slow tests.
func TestBoards(t *testing.T) {
	if os.Getenv("EDGED_SLOW") == "" {
		t.Skip("EDGED_SLOW is not set")
	}
	for _, b := range []struct{ arch, arm, qemu string }{{"arm64", "", "qemu-aarch64"}, {"arm", "7", "qemu-arm"}, {"arm", "6", "qemu-arm"}} {
		t.Run(b.arch+b.arm, func(t *testing.T) {
			qemu, err := exec.LookPath(b.qemu)
			if err != nil {
				if qemu, err = exec.LookPath(b.qemu + "-static"); err != nil {
					t.Skipf("no %s; apt-get install qemu-user", b.qemu)
				}
			}
			program := filepath.Join(t.TempDir(), "builtin.test")
			build := exec.Command("go", "test", "-c", "-o", program, ".")
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+b.arch, "GOARM="+b.arm)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			run := exec.Command(qemu, program, "-test.run", "^(TestCommands|TestSchemaAnswer|TestNarrowerSchema)$", "-test.v")
			run.Env = append(os.Environ(), "EDGED_SLOW=")
			out, err := run.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestCommands") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
