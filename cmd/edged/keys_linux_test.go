package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

const doorScript = `
def open_door():
    """Opens the door."""
    return "open"

Agent("butler", model = "intent", tools = [Tool(open_door, confirm = True, sentences = ["open the door"], response = "The door is {result}.")])
`

// TestAnswersInTheTerminal presses y, and then n, where the robot runs, once
// each question is there to be read.
func TestAnswersInTheTerminal(t *testing.T) {
	t.Setenv("EDGED_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.star"), []byte(doorScript), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, tty := openTerminal(t)
	robot := edgedCommand(t, "run", dir, "--mqtt.listen=off", "--page.listen=off")
	robot.Stdin, robot.Stderr = tty, os.Stderr
	robot.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // the terminal is its own
	out, err := robot.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := robot.Start(); err != nil {
		t.Fatal(err)
	}
	defer robot.Wait()
	defer robot.Process.Signal(os.Interrupt)
	said := bufio.NewScanner(out)
	heard := func(want string) {
		t.Helper()
		for said.Scan() {
			if strings.Contains(said.Text(), want) {
				return
			}
		}
		t.Fatalf("the robot ended without %q", want)
	}
	heard("memory ")
	for _, x := range []struct {
		key, shown, answer string
		ok                 bool
	}{
		{"y", "allowed: butler wants open_door", "The door is open.", true},
		{"n", "refused: butler wants open_door", "a person said no", false},
	} {
		answered := make(chan string, 1)
		ask := edgedCommand(t, "ask", "--dir", dir, "open the door")
		go func() {
			b, err := ask.CombinedOutput()
			answered <- fmt.Sprintf("%s(went well: %v)", b, err == nil)
		}()
		heard("press y to allow it, n to refuse")
		if _, err := keys.WriteString("x" + x.key); err != nil { // x is no answer
			t.Fatal(err)
		}
		heard(x.shown)
		if got := <-answered; !strings.Contains(got, x.answer) || !strings.Contains(got, fmt.Sprintf("(went well: %v)", x.ok)) {
			t.Errorf("key %s: ask says %q, want %q", x.key, got, x.answer)
		}
	}
}

// edgedCommand is the binary under test, see TestMain.
func edgedCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Args[0] = "edged"
	return c
}

// openTerminal gives both ends of a new terminal: the keys, and what a process
// reads them from.
func openTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { keys.Close() })
	var locked, n int32
	if err := ioctl(keys, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err != nil {
		t.Fatal(err)
	}
	if err := ioctl(keys, syscall.TIOCGPTN, unsafe.Pointer(&n)); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keys, tty
}
