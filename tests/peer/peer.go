// Package peer finds the real programs that tests talk to.
//
// Its one rule: a missing peer is never silent. Under `make test`, which
// installs them and sets EDGED_PEERS=required, it fails the test; a plain
// `go test ./...` skips it and says so on the terminal.
package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// places where Debian puts servers, beside the PATH.
var places = []string{"/usr/sbin", "/usr/local/sbin", "/sbin"}

// Need gives the path of a program, mosquitto say, and the Debian package it
// comes from is named when it is missing.
func Need(t testing.TB, program, debian string) string {
	t.Helper()
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, dir := range places {
		if path := filepath.Join(dir, program); executable(path) {
			return path
		}
	}
	Missing(t, fmt.Sprintf("%s (apt-get install %s)", program, debian))
	return ""
}

// Root says that the test must be root, or have what.
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root, for "+what)
	}
}

// File says that the test needs a file, /dev/fuse say.
func File(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		Missing(t, path)
	}
}

// Missing ends the test: fatal where peers are required, else skipped, loudly.
func Missing(t testing.TB, what string) {
	t.Helper()
	if Required() {
		t.Fatalf("this test needs %s; `make test` installs what it can", what)
	}
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil {
		fmt.Fprintf(tty, "\n*** %s IS SKIPPED: it needs %s; `make test` runs everything\n", t.Name(), what)
		tty.Close()
	}
	t.Skipf("SKIPPED: it needs %s; `make test` runs everything", what)
}

// Required reports whether a missing peer is a failure.
func Required() bool { return os.Getenv("EDGED_PEERS") == "required" }

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode()&0o111 != 0
}
