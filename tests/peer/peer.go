// Package peer finds the real programs that tests talk to.
//
// Its one rule: a missing peer is never silent. Under `make test`, which
// installs them and sets EDGED_PEERS=required, it fails the test; a plain
// `go test ./...` skips it and says so on the terminal.
package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// Root says that the test must be root, and for what. A package whose tests
// call it does so in TestMain with [AsRoot].
func Root(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root, for "+what)
	}
}

// AsRoot runs the tests of this binary as root, by sudo, where peers are
// required and the user is somebody else; ok says that they were run, and code
// is their exit status. sudo is not let ask for a password: `make test` has
// done so before. What can't be run is said by the tests that call [Root].
// more are variables for the environment, beside EDGED_….
func AsRoot(more ...string) (code int, ok bool) {
	if os.Geteuid() == 0 || !Required() {
		return 0, false
	}
	sudo := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sudo", append([]string{"-n", "env"}, args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd
	}
	if err := sudo("true").Run(); err != nil {
		return 0, false
	}
	args := more
	for _, kv := range os.Environ() {
		if strings.HasPrefix(kv, "EDGED_") || strings.HasPrefix(kv, "PATH=") || strings.HasPrefix(kv, "TMPDIR=") {
			args = append(args, kv)
		}
	}
	err := sudo(append(append(args, os.Args[0]), os.Args[1:]...)...).Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return exit.ExitCode(), true
	}
	fmt.Fprintln(os.Stderr, "sudo:", err)
	return 1, true
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
		t.Fatalf("this test needs %s; `make test` installs what it can, and uses sudo", what)
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
