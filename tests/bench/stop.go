package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// stopsTimed is how often each row stops the robot; the worst counts.
const stopsTimed = 100

// stops measures what a person waits for: `edged stop`, from the start of its
// process to its answer that all is at rest, and the same asked over a connection
// that is open already, as the page and a wired button are. Meanwhile the robot is
// flooded with readings over MQTT; then sixteen handlers compute besides without
// end; then eight other processes do so, too; and then the robot and its command
// have the priority that the unit in doc/deploy.md gives.
func stops(b *bench) error {
	spin := "\ndef spin(ev):\n    for i in range(100000000):\n        pass\n\n[on(\"sensors/t\", spin, max_queue = 1) for i in range(16)]\n"
	if err := b.stop("", "while MQTT floods the robot", 0, 0); err != nil {
		return err
	}
	if err := b.stop(spin, "while sixteen handlers compute without end, too", 0, 0); err != nil {
		return err
	}
	if err := b.stop(spin, "and beside eight busy processes", 8, 0); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		b.rows = append(b.rows, row{group: "stop", what: "the same with the unit's priority: not measured, it needs root"})
		return nil
	}
	return b.stop(spin, fmt.Sprintf("and beside eight busy processes, with the unit's priority (nice %d)", unitNice), 8, unitNice)
}

// unitNice is Nice= in doc/deploy.md.
const unitNice = -10

func (b *bench) stop(more, when string, busy, nice int) error {
	addr, err := freePort()
	if err != nil {
		return err
	}
	dir, err := b.robot(10, addr, true)
	if err != nil {
		return err
	}
	script := filepath.Join(dir, "main.star")
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	if err := os.WriteFile(script, append(text, more...), 0o644); err != nil {
		return err
	}
	edged := []string{filepath.Join(b.bin, "edged")}
	if nice != 0 {
		edged = []string{"nice", "-n", strconv.Itoa(nice), edged[0]}
	}
	p, err := b.spawn(".", edged[0], append(edged[1:], "run", "--sim", dir)...)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := reachable(addr); err != nil {
		return err
	}
	flood := exec.Command(b.bin+"/probe", "-n", "10000000", "-window", "200", addr)
	if err := flood.Start(); err != nil {
		return err
	}
	defer func() { _ = flood.Process.Kill(); _ = flood.Wait() }()
	for range busy {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	}
	time.Sleep(time.Second)
	sock := filepath.Join(dir, "data", "edged.sock")
	ask := func(verb string) ([]byte, error) {
		args := append(edged[1:], "--socket", sock, verb, "--json")
		out, err := exec.Command(edged[0], args...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %v: %s", verb, err, out)
		}
		return out, nil
	}
	open, err := net.Dial("unix", sock)
	if err != nil {
		return err
	}
	defer open.Close()
	answers := bufio.NewScanner(open)

	var wall, asked []float64
	for range stopsTimed {
		began := time.Now()
		if _, err := ask("stop"); err != nil {
			return err
		}
		wall = append(wall, since(began))
		if _, err := ask("resume"); err != nil {
			return err
		}
		began = time.Now()
		if err := over(open, answers, "stop"); err != nil {
			return err
		}
		asked = append(asked, since(began))
		if err := over(open, answers, "resume"); err != nil {
			return err
		}
	}
	b.worst(fmt.Sprintf("`edged stop` %s, the worst of %d: from the start of the command to its answer", when, len(wall)), wall)
	b.worst("the same, asked over a connection that is open already", asked)
	return nil
}

func (b *bench) worst(what string, ms []float64) {
	most := slices.Max(ms)
	b.add(row{group: "stop", what: what, value: fmt.Sprintf("%.1f ms, half of them ≤ %.1f", most, median(ms)), goal: "≤ 50 ms", ok: most <= 50})
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

// over asks on an open connection and waits for the end of the answer.
func over(c net.Conn, answers *bufio.Scanner, verb string) error {
	if _, err := fmt.Fprintf(c, "{\"do\":%q}\n", verb); err != nil {
		return err
	}
	for answers.Scan() {
		var a struct {
			Done  bool
			Error *struct{ Msg string }
		}
		if err := json.Unmarshal(answers.Bytes(), &a); err != nil {
			return err
		}
		if a.Error != nil {
			return fmt.Errorf("%s: %s", verb, a.Error.Msg)
		}
		if a.Done {
			return nil
		}
	}
	return fmt.Errorf("%s: the robot is gone: %v", verb, answers.Err())
}
