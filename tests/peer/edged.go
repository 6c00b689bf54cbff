package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var built struct {
	once sync.Once
	dir  string
	err  error
}

// Edged builds edged once, as it is shipped, and gives its path. A package whose
// tests call it calls [Clean] at the end of TestMain.
func Edged(t testing.TB) string {
	t.Helper()
	bin, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Build is Edged for a TestMain: before tests are run as root, whose build cache
// is another, it puts the path into PEER_EDGED, where Build looks first.
func Build() (string, error) {
	if bin := os.Getenv("PEER_EDGED"); bin != "" {
		return bin, nil
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "edged-peer"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.dir, "edged"), "edged/cmd/edged")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	return filepath.Join(built.dir, "edged"), built.err
}

// Clean removes what [Edged] built.
func Clean() { os.RemoveAll(built.dir) }
