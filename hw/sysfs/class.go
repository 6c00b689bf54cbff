package sysfs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"edged/hw"
)

// The classes. Each gives sensors whose find looks the device up again by what
// it is called, because a driver that was loaded anew has another number.

// thermal finds the thermal zones by their type.
func thermal(o Options) ([]*Sensor, error) {
	zones, err := folders(o, "thermal")
	if err != nil {
		return nil, err
	}
	var list []*Sensor
	seen := map[string]int{}
	for _, dir := range zones {
		kind := attribute(dir, "type")
		if !strings.HasPrefix(filepath.Base(dir), "thermal_zone") || kind == "" {
			continue
		}
		nth := seen[kind]
		seen[kind]++
		list = append(list, &Sensor{
			opt: o, name: slug("thermal", kind), about: "thermal:" + kind, unit: "°C",
			hw: hw.Bounds{Min: -40, Max: 125}, parse: number(1e-3),
			find: func() (string, error) {
				return lookup(o, "thermal", nth, "temp", func(d string) bool {
					return strings.HasPrefix(filepath.Base(d), "thermal_zone") && attribute(d, "type") == kind
				})
			},
		})
	}
	return list, nil
}

// lookup gives a file of the nth entry of a class that matches.
func lookup(o Options, class string, nth int, file string, match func(dir string) bool) (string, error) {
	dirs, err := folders(o, class)
	if err != nil {
		return "", err
	}
	for _, d := range dirs {
		if match(d) {
			if nth == 0 {
				return filepath.Join(d, file), nil
			}
			nth--
		}
	}
	return "", fmt.Errorf("sysfs: %s: the device is gone; is it unplugged, or its driver unloaded?", class)
}

// kind is a sort of hwmon channel.
type kind struct {
	prefix string
	unit   string
	factor float64
	bounds hw.Bounds
}

func kinds() []kind {
	return []kind{
		{"temp", "°C", 1e-3, hw.Bounds{Min: -40, Max: 125}},
		{"in", "V", 1e-3, hw.Bounds{}},
		{"fan", "rpm", 1, hw.Bounds{Min: 0, Max: 50000}},
		{"curr", "A", 1e-3, hw.Bounds{}},
		{"power", "W", 1e-6, hw.Bounds{}},
		{"energy", "J", 1e-6, hw.Bounds{}},
		{"humidity", "%", 1e-3, hw.Bounds{Min: 0, Max: 100}},
	}
}

// kindOf says what an hwmon file is: "temp1_input".
func kindOf(file string) (kind, bool) {
	m := regexp.MustCompile(`^([a-z]+)[0-9]+_input$`).FindStringSubmatch(file)
	if m == nil {
		return kind{}, false
	}
	for _, k := range kinds() {
		if k.prefix == m[1] {
			return k, true
		}
	}
	return kind{}, false
}

// hwmon finds the channels of every chip by chip name and label.
func hwmon(o Options) ([]*Sensor, error) {
	chips, err := folders(o, "hwmon")
	if err != nil {
		return nil, err
	}
	var list []*Sensor
	seen := map[string]int{}
	for _, dir := range chips {
		chip := attribute(dir, "name")
		if chip == "" {
			continue
		}
		nth := seen[chip]
		seen[chip]++
		files, err := os.ReadDir(dir)
		if err != nil {
			continue // gone between two looks
		}
		for _, f := range files {
			k, ok := kindOf(f.Name())
			if !ok {
				continue
			}
			channel := strings.TrimSuffix(f.Name(), "_input")
			label := attribute(dir, channel+"_label")
			if label == "" {
				label = channel
			}
			list = append(list, &Sensor{
				opt: o, name: slug("hwmon", chip, label), about: "hwmon:" + chip + "/" + label,
				unit: k.unit, hw: k.bounds, parse: number(k.factor),
				find: func() (string, error) {
					return lookup(o, "hwmon", nth, f.Name(), func(d string) bool { return attribute(d, "name") == chip })
				},
			})
		}
	}
	return list, nil
}

// supply is one attribute of a power supply.
type supply struct {
	file   string
	unit   string
	parse  func(string) (any, error)
	bounds hw.Bounds
}

func supplies() []supply {
	text := func(s string) (any, error) { return s, nil }
	truth := func(s string) (any, error) {
		if s != "0" && s != "1" {
			return nil, fmt.Errorf("neither 0 nor 1: %.40q", s)
		}
		return s == "1", nil
	}
	return []supply{
		{"capacity", "%", number(1), hw.Bounds{Min: 0, Max: 100}},
		{"voltage_now", "V", number(1e-6), hw.Bounds{}},
		{"current_now", "A", number(1e-6), hw.Bounds{}},
		{"power_now", "W", number(1e-6), hw.Bounds{}},
		{"temp", "°C", number(1e-1), hw.Bounds{Min: -40, Max: 125}},
		{"online", "", truth, hw.Bounds{}},
		{"status", "", text, hw.Bounds{}},
	}
}

// power finds batteries and mains; their folders bear their names. A supply's
// capacity is just called after it.
func power(o Options) ([]*Sensor, error) {
	dirs, err := folders(o, "power_supply")
	if err != nil {
		return nil, err
	}
	var list []*Sensor
	for _, dir := range dirs {
		name := filepath.Base(dir)
		for _, s := range supplies() {
			path := filepath.Join(dir, s.file)
			if _, err := os.Stat(path); err != nil {
				continue
			}
			label, about := []string{"power", name}, "power:"+name
			if s.file != "capacity" {
				short := strings.TrimSuffix(s.file, "_now")
				label, about = append(label, short), about+"/"+short
			}
			list = append(list, &Sensor{
				opt: o, name: slug(label...), about: about, unit: s.unit, hw: s.bounds, parse: s.parse,
				find: func() (string, error) { return path, nil },
			})
		}
	}
	return list, nil
}

// proc finds load and memory.
func proc(o Options) ([]*Sensor, error) {
	read := func(name, file, unit string, b hw.Bounds, parse func(string) (any, error)) *Sensor {
		path := filepath.Join(o.Root, "proc", file)
		return &Sensor{opt: o, name: name, about: name, unit: unit, hw: b, parse: parse,
			find: func() (string, error) { return path, nil }}
	}
	list := []*Sensor{
		read("load", "loadavg", "", hw.Bounds{}, parseLoad),
		read("memory", "meminfo", "%", hw.Bounds{Min: 0, Max: 100}, parseMemory),
	}
	return slices.DeleteFunc(list, func(s *Sensor) bool {
		path, _ := s.find()
		_, err := os.Stat(path)
		return err != nil
	}), nil
}

// parseLoad gives the load of the last minute.
func parseLoad(text string) (any, error) {
	first, _, _ := strings.Cut(text, " ")
	return number(1)(first)
}

// parseMemory gives how much of the memory can't be had, in percent.
func parseMemory(text string) (any, error) {
	var total, available float64
	for line := range strings.Lines(text) {
		var kB float64
		if _, err := fmt.Sscanf(line, "MemTotal: %f kB", &kB); err == nil {
			total = kB
		} else if _, err := fmt.Sscanf(line, "MemAvailable: %f kB", &kB); err == nil {
			available = kB
		}
	}
	if total <= 0 || available > total {
		return nil, fmt.Errorf("no MemTotal and MemAvailable")
	}
	percent := 100 * (1 - available/total)
	return float64(int(percent*10+0.5)) / 10, nil
}
