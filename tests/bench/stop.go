package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// stops measures what a person waits for: `edged stop`, from the start of its
// process to its answer that all is at rest, while the robot is flooded with
// readings over MQTT, and then with sixteen handlers besides that compute for a
// second at each.
func stops(b *bench) error {
	if err := b.stop("", "while MQTT floods the robot"); err != nil {
		return err
	}
	spin := "\ndef spin(ev):\n    for i in range(100000000):\n        pass\n\n[on(\"sensors/t\", spin, max_queue = 1) for i in range(16)]\n"
	return b.stop(spin, "while sixteen handlers compute without end, too")
}

func (b *bench) stop(more, when string) error {
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
	p, err := b.spawn(".", "edged", "run", "--sim", dir)
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
	time.Sleep(time.Second)
	edged := func(args ...string) ([]byte, error) {
		return exec.Command(b.bin+"/edged", append([]string{"--socket", filepath.Join(dir, "data", "edged.sock")}, args...)...).CombinedOutput()
	}
	var wall, inside []float64
	for range 20 * b.rounds {
		began := time.Now()
		text, err := edged("stop", "--json")
		if err != nil {
			return fmt.Errorf("stop: %v: %s", err, text)
		}
		wall = append(wall, float64(time.Since(began).Microseconds())/1000)
		var said struct{ MS float64 }
		if err := json.Unmarshal(text, &said); err != nil {
			return fmt.Errorf("stop said %s: %v", text, err)
		}
		inside = append(inside, said.MS)
		if text, err := edged("resume"); err != nil {
			return fmt.Errorf("resume: %v: %s", err, text)
		}
	}
	worst, rest := slices.Max(wall), slices.Max(inside)
	b.add(row{group: "stop", what: fmt.Sprintf("`edged stop` %s, the worst of %d: from the start of the command to its answer", when, len(wall)),
		value: fmt.Sprintf("%.0f ms, half of them ≤ %.0f", worst, median(wall)), goal: "≤ 50 ms", ok: worst <= 50})
	b.add(row{group: "stop", what: "the same, from its arrival in the robot to all at rest", value: fmt.Sprintf("%.1f ms, half of them ≤ %.1f", rest, median(inside)), goal: "≤ 50 ms", ok: rest <= 50})
	return nil
}
