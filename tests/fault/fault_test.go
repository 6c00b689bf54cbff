// Package fault proves what the blackboard promises about trouble: processes
// killed at random moments, power cuts with torn sectors, disks that fail or
// fill up, files that are damaged.
//
// Its one rule: what is expected never comes from a clock or a guess. A writer
// process acknowledges each step after the board has returned, and the
// acknowledgement goes through the thing that dies: the pipe of the killed
// process, or a file on the very disk that loses power. So everything that was
// acknowledged before the cut is known exactly, and must be found afterwards.
//
// The writers and the readers of what is left are children of the test: the
// test binary starts itself (a build without the race detector, which would
// make them ten times slower). The disk that loses power is a FUSE file system
// served by the test, so most tests want root and /dev/fuse: under `make test`
// they get it by sudo, else they are skipped loudly (see tests/peer). With
// EDGED_SLOW=1 they run about ten times as long.
package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/tests/peer"
)

const (
	envChild  = "EDGED_FAULT_CHILD"  // what the test binary is to be: writer, bolt or reader
	envConfig = "EDGED_FAULT_CONFIG" // of a writer, as JSON
	envSeed   = "EDGED_FAULT_SEED"   // repeats the random choices of a run
	envKeep   = "EDGED_FAULT_KEEP"   // folder for the images that show a fault
	envSeeds  = "EDGED_FAULT_SEEDS"  // write: make testdata/seeds.gz anew
	envBinary = "EDGED_FAULT_BINARY" // what children are started from, built by the user who became root
)

func TestMain(m *testing.M) {
	switch os.Getenv(envChild) {
	case "writer":
		os.Exit(runWriter())
	case "bolt":
		os.Exit(runBolt())
	case "reader":
		os.Exit(runReader())
	}
	bin, err := executable() // as this user, whose build cache it is
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	more := []string{envBinary + "=" + bin}
	if os.Geteuid() != 0 && peer.Required() {
		edged, err := peer.Build()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		more = append(more, "PEER_EDGED="+edged)
	}
	if code, ok := peer.AsRoot(more...); ok {
		peer.Clean()
		if raceEnabled {
			os.RemoveAll(filepath.Dir(bin))
		}
		os.Exit(code)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		peer.Clean()
		if raceEnabled && os.Getenv(envBinary) == "" {
			os.RemoveAll(filepath.Dir(bin))
		}
		os.Exit(code)
	}))
}

// slow says that there is time for the long runs.
func slow() bool { return os.Getenv("EDGED_SLOW") == "1" }

// scale is n in CI and m in slow runs.
func scale(n, m int) int {
	if slow() {
		return m
	}
	return n
}

// executable is what children are started from: this test binary, or with the race
// detector on, one without.
var executable = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv(envBinary); bin != "" {
		return bin, nil
	}
	if !raceEnabled {
		return os.Executable()
	}
	dir, err := os.MkdirTemp("", "edged-fault")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "fault.test")
	cmd := exec.Command("go", "test", "-c", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the children: %w\n%s", err, out)
	}
	return bin, nil
})

// random gives a generator whose seed is logged and can be given again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(envSeed); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", envSeed, err)
		}
		seed = n
	}
	t.Logf("%s=%d repeats the choices of this run", envSeed, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func needFuse(t *testing.T) {
	t.Helper()
	peer.Root(t, "mounting a disk")
	peer.File(t, "/dev/fuse")
}

// ram gives a folder in memory: what SIGKILL leaves behind does not depend on
// the disk, and images of cut disks are only read.
func ram(t *testing.T) string {
	t.Helper()
	base := "/dev/shm"
	if fi, err := os.Stat(base); err != nil || !fi.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(base, "edged-fault")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
