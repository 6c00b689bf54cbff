package sysfs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/hw"
)

// tree makes a fake machine.
func tree(t *testing.T, files map[string]string) Options {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		write(t, root, name, text)
	}
	return Options{Root: root}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func machine() map[string]string {
	return map[string]string{
		"sys/class/thermal/thermal_zone0/type":        "cpu-thermal\n",
		"sys/class/thermal/thermal_zone0/temp":        "48312\n",
		"sys/class/thermal/thermal_zone1/type":        "acpitz\n",
		"sys/class/thermal/thermal_zone1/temp":        "-5000\n",
		"sys/class/thermal/thermal_zone2/type":        "acpitz\n",
		"sys/class/thermal/thermal_zone2/temp":        "16800\n",
		"sys/class/thermal/cooling_device0/type":      "Processor\n",
		"sys/class/hwmon/hwmon3/name":                 "coretemp\n",
		"sys/class/hwmon/hwmon3/temp2_input":          "51000\n",
		"sys/class/hwmon/hwmon3/temp2_label":          "Core 0\n",
		"sys/class/hwmon/hwmon3/temp2_max":            "90000\n",
		"sys/class/hwmon/hwmon4/name":                 "ina219\n",
		"sys/class/hwmon/hwmon4/in1_input":            "12040\n",
		"sys/class/hwmon/hwmon4/curr1_input":          "250\n",
		"sys/class/hwmon/hwmon4/power1_input":         "3010000\n",
		"sys/class/hwmon/hwmon4/fan1_input":           "1430\n",
		"sys/class/power_supply/BAT0/capacity":        "87\n",
		"sys/class/power_supply/BAT0/voltage_now":     "11800000\n",
		"sys/class/power_supply/BAT0/temp":            "312\n",
		"sys/class/power_supply/BAT0/status":          "Discharging\n",
		"sys/class/power_supply/AC/online":            "0\n",
		"proc/loadavg":                                "0.52 0.58 0.59 2/1213 4711\n",
		"proc/meminfo":                                "MemTotal:        8000000 kB\nMemFree: 100 kB\nMemAvailable:    6000000 kB\n",
		"sys/bus/iio/devices/iio:device0/temp1_input": "20500\n",
	}
}

func TestDiscover(t *testing.T) {
	all, err := Discover(tree(t, machine()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		v, err := s.Read()
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s = %v %s", s.Name(), v, s.Unit())))
		if err != nil {
			t.Error(err)
		}
	}
	want := `hwmon_coretemp_core-0 = 51 °C
hwmon_ina219_curr1 = 0.25 A
hwmon_ina219_fan1 = 1430 rpm
hwmon_ina219_in1 = 12.04 V
hwmon_ina219_power1 = 3.01 W
load = 0.52
memory = 25 %
power_ac_online = false
power_bat0 = 87 %
power_bat0_status = Discharging
power_bat0_temp = 31.2 °C
power_bat0_voltage = 11.8 V
thermal_acpitz = -5 °C
thermal_acpitz_2 = 16.8 °C
thermal_cpu-thermal = 48.312 °C`
	if g := strings.Join(got, "\n"); g != want {
		t.Errorf("got\n%s\nwant\n%s", g, want)
	}
}

func TestOpen(t *testing.T) {
	o := tree(t, machine())
	for about, want := range map[string]string{
		"thermal:cpu-thermal":   "48.312 °C",
		"thermal:acpitz#2":      "16.8 °C",
		"hwmon:coretemp/Core 0": "51 °C",
		"power:BAT0":            "87 %",
		"power:AC/online":       "false ",
		"/sys/bus/iio/devices/iio:device0/temp1_input": "20.5 °C",
		"/sys/class/thermal/thermal_zone1/temp":        "-5 °C",
	} {
		s, err := Open("x", about, o)
		if err != nil {
			t.Error(err)
			continue
		}
		v, err := s.Read()
		if got := fmt.Sprintf("%v %s", v, s.Unit()); err != nil || got != want || s.Name() != "x" {
			t.Errorf("%s: got %s, %v, want %s", about, got, err, want)
		}
	}
	_, err := Open("x", "thermal:gpu", o)
	if err == nil || !strings.Contains(err.Error(), `no "thermal:gpu" on this machine; there are: hwmon:coretemp/Core 0,`) {
		t.Errorf("got %v", err)
	}
}

// A driver that is loaded anew gets another number; the sensor follows.
func TestFollowsTheLabel(t *testing.T) {
	o := tree(t, machine())
	s, err := Open("cpu", "hwmon:coretemp/Core 0", o)
	if err != nil {
		t.Fatal(err)
	}
	class := filepath.Join(o.Root, "sys/class/hwmon")
	if err := os.Rename(filepath.Join(class, "hwmon3"), filepath.Join(class, "hwmon7")); err != nil {
		t.Fatal(err)
	}
	write(t, o.Root, "sys/class/hwmon/hwmon3/name", "other\n")
	if v, err := s.Read(); err != nil || v != 51.0 {
		t.Errorf("got %v, %v", v, err)
	}
	if err := os.RemoveAll(filepath.Join(class, "hwmon7")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), "unplugged") {
		t.Errorf("gone: got %v", err)
	}
}

func TestBrokenFiles(t *testing.T) {
	for name, text := range map[string]string{
		"sys/class/thermal/thermal_zone0/temp": "hot\n",
		"sys/class/hwmon/hwmon3/temp2_input":   "",
		"sys/class/power_supply/AC/online":     "2\n",
		"sys/class/power_supply/BAT0/capacity": "8 7\n",
		"proc/meminfo":                         "MemTotal: 1 kB\nMemAvailable: 2 kB\n",
		"proc/loadavg":                         "\n",
	} {
		files := machine()
		files[name] = text
		all, err := Discover(tree(t, files))
		if err != nil {
			t.Error(err)
		}
		bad := 0
		for _, s := range all {
			if _, err := s.Read(); err != nil {
				bad++
			}
		}
		if bad != 1 {
			t.Errorf("%s = %q: %d sensors fail, want 1", name, text, bad)
		}
	}
	if all, err := Discover(Options{Root: t.TempDir()}); err != nil || len(all) != 0 {
		t.Errorf("an empty machine: %v, %v", all, err)
	}
}

// Behind a rig: polled in virtual time, tried again after a failure.
func TestBehindARig(t *testing.T) {
	o := tree(t, machine())
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		rig, err := hw.NewRig(b, hw.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open("cpu", "thermal:cpu-thermal", o)
		if err != nil {
			t.Fatal(err)
		}
		if err := rig.AddSensor(s, s.Bounds()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for _, s := range rig.Services() {
			go s.Serve(ctx)
		}
		check := func(want string) {
			t.Helper()
			synctest.Wait()
			r, _ := rig.Last("cpu")
			if got := fmt.Sprintf("%v %s", r.Value, r.Quality); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check("48.312 good")
		write(t, o.Root, "sys/class/thermal/thermal_zone0/temp", "150000\n")
		time.Sleep(5 * time.Second)
		check("150 range")
		write(t, o.Root, "sys/class/thermal/thermal_zone0/temp", "oops\n")
		time.Sleep(5 * time.Second)
		check("150 missing")
		write(t, o.Root, "sys/class/thermal/thermal_zone0/temp", "40000\n")
		time.Sleep(time.Minute)
		check("40 good")
		cancel()
		synctest.Wait()
		rig.Close()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// On the machine that runs the test: load and memory at least.
func TestRealMachine(t *testing.T) {
	all, err := Discover(Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]any{}
	for _, s := range all {
		v, err := s.Read()
		t.Logf("%s (%s) = %v %s %v", s.Name(), s.About(), v, s.Unit(), err)
		found[s.Name()] = v
	}
	if l, ok := found["load"].(float64); !ok || l < 0 {
		t.Errorf("load = %v", found["load"])
	}
	if m, ok := found["memory"].(float64); !ok || m <= 0 || m >= 100 {
		t.Errorf("memory = %v", found["memory"])
	}
}

func ExampleDiscover() {
	found, err := Discover(Options{})
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range found {
		if s.Name() == "memory" {
			fmt.Println(s.About(), s.Unit())
		}
	}
	// Output: memory %
}
