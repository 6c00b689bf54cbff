package main

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The share of the processors is that since the last look, and the temperature
// that of the hottest zone that says one.
func TestMachine(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m := &machine{root: root}
		if u := m.read(); u.CPU != nil || u.Temp != nil || u.Load != nil {
			t.Errorf("of a machine that tells nothing: %+v", u)
		}
		write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n")
		write("proc/loadavg", "0.25 0.1 0.1 1/200 4242\n")
		write("sys/class/thermal/thermal_zone0/temp", "41500\n")
		write("sys/class/thermal/thermal_zone1/temp", "52250\n")
		write("sys/class/thermal/thermal_zone2/temp", "-274000\n")
		if u := m.read(); u.CPU != nil || u.Temp == nil || *u.Temp != 52.25 || u.Load == nil || *u.Load != 0.25 {
			t.Errorf("at first: %+v", u)
		}
		time.Sleep(time.Second)
		write("proc/stat", "cpu  125 0 100 765 110 0 0 0 0 0\n")
		if u := m.read(); u.CPU == nil || *u.CPU != 25 {
			t.Errorf("of 100 ticks 25 were busy: %+v", u)
		}
		write("proc/stat", "cpu  225 0 100 765 110 0 0 0 0 0\n")
		if u := m.read(); u.CPU == nil || *u.CPU != 25 {
			t.Errorf("at once again: %+v", u)
		}
	})
}
