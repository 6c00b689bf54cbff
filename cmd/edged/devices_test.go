package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/hw"
)

// output opens one device that edged.toml declares, as it is or as its twin.
func output(t *testing.T, simulate bool, table string) (*hw.Rig, func(), error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, config.File), []byte("[devices.out]\n"+table), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(dir, nil, nil)
	if err != nil {
		return nil, func() {}, err
	}
	b := bus.New(bus.Options{})
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDevices(rig, cfg, simulate)
	return rig, func() {
		rig.Close()
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}, err
}

// TestOutputs: what an output's table says of its commands' lifetime and its rest,
// the same for the twin that a rehearsal has.
func TestOutputs(t *testing.T) {
	led, pwm := "driver = \"sysfs.output\"\nfile = \"/sys/class/leds/led0/brightness\"\n", "driver = \"sysfs.output\"\nfile = \"/sys/class/pwm/pwmchip0/pwm0/duty_cycle\"\n"
	for table, want := range map[string]string{
		led:                           "stays for ever, 0..255, rests at 0",
		led + "moves = true":          "moves for 500ms, 0..255, rests at 0",
		led + "moves = false":         "stays for ever, 0..255, rests at 0",
		led + "hold = \"10m\"":        "stays for 10m0s, 0..255, rests at 0",
		led + "max = 9\nrest = 3":     "stays for ever, 0..9, rests at 3",
		led + "rest = \"keep\"":       "stays for ever, 0..255, keeps",
		led + "slew = 5\nrate = 2":    "stays for ever, 0..255, rests at 0, slew 5, rate 2",
		pwm:                           "moves for 500ms, 0..255, rests at 0",
		pwm + "hold = \"2s\"":         "moves for 2s, 0..255, rests at 0",
		pwm + "moves = false":         "stays for ever, 0..255, rests at 0",
		"driver = \"sim.actuator\"\n": "stays for ever, 0..1, rests at 0",
		"driver = \"sim.actuator\"\nmoves = true\nhold = \"1s\"": "moves for 1s, 0..1, rests at 0",

		led + "moves = true\nhold = \"6s\"":    "error: hold 6s is longer than 5s",
		led + "hold = \"25h\"":                 "error: hold 25h0m0s is longer than 24h0m0s",
		led + "moves = true\nrest = \"keep\"":  `error: rest: "keep" is not for what moves: say where it rests, a number`,
		pwm + "rest = \"keep\"":                `error: rest: "keep" is not for what moves`,
		led + "rest = \"keep\"\nhold = \"1m\"": "error: hold has no effect",
		led + "rest = \"leave\"":               "error: rest: want a number",
		led + "moves = \"yes\"":                "error: moves: want true or false",
		led + "max = 100\nrest = 101":          "error: rest 101",
	} {
		for _, simulate := range []bool{false, true} {
			rig, done, err := output(t, simulate, table)
			got := fmt.Sprintf("error: %v", err)
			if err == nil {
				l, _ := rig.Limits("out")
				got = described(l)
			}
			done()
			if text, isError := strings.CutPrefix(want, "error: "); isError && !strings.Contains(got, text) || !isError && got != want {
				t.Errorf("twin %v of\n%s\n got %s\nwant %s", simulate, table, got, want)
			}
		}
	}
}

func described(l hw.Limits) string {
	f := l.Fields["value"]
	how, long, rest := "moves", l.Hold.String(), fmt.Sprintf("rests at %v", f.Rest)
	if l.Stays {
		how = "stays"
	}
	if l.Hold == 0 {
		long = "ever"
	}
	if l.Keeps {
		rest = "keeps"
	}
	text := fmt.Sprintf("%s for %s, %v..%v, %s", how, long, f.Min, f.Max, rest)
	if f.Slew+l.Rate > 0 {
		text += fmt.Sprintf(", slew %v, rate %v", f.Slew, l.Rate)
	}
	return text
}

// TestOutputsStay: a lamp's file has what it was told a day later, and at a stop
// what its rest says; what moves is at rest after its lifetime.
func TestOutputsStay(t *testing.T) {
	for more, want := range map[string]string{
		"": "200, a day later 200, stopped 0", "rest = 7": "200, a day later 200, stopped 7",
		"rest = \"keep\"": "200, a day later 200, stopped 200", "moves = true": "200, a day later 0, stopped 0",
	} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "brightness")
			if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
				t.Fatal(err)
			}
			read := func() string { b, _ := os.ReadFile(file); return string(b) }
			rig, done, err := output(t, false, fmt.Sprintf("driver = \"sysfs.output\"\nfile = %q\n%s", file, more))
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if err := rig.Do(t.Context(), "test", "out", 200); err != nil {
				t.Fatal(err)
			}
			got := read()
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			got += ", a day later " + read()
			if err := rig.Stop(t.Context(), "cli", "test"); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if got += ", stopped " + read(); got != want {
				t.Errorf("%q:\n got %s\nwant %s", more, got, want)
			}
			if n := len(rig.SafeActions()); (n == 0) != strings.Contains(more, "keep") {
				t.Errorf("%q: the guard has %d actions", more, n)
			}
		})
	}
}
