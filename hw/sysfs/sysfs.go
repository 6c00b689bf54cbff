// Package sysfs reads what a Linux machine says of itself in files:
// temperatures, voltages, fans, batteries, load and memory.
//
// Its one rule: a thing is found by what it is called, never by its number.
// hwmon3 is another chip after the next boot; "coretemp" with the label
// "Core 0" is not.
//
//	found, err := sysfs.Discover(sysfs.Options{})
//	for _, s := range found {
//		err = rig.AddSensor(s, s.Bounds())
//	}
//	cpu, err := sysfs.Open("cpu", "thermal:cpu-thermal", sysfs.Options{})
//
// Values are in °C, V, A, W, J, %, and rpm for fans.
package sysfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"edged/hw"
)

// Options say where to look and how often.
type Options struct {
	Root  string        // in front of /sys and /proc, for tests; empty is the machine itself
	Every time.Duration // between two readings; 5 s
}

func (o Options) filled() Options {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	return o
}

// A Sensor reads one file. It satisfies hw.Sensor.
type Sensor struct {
	opt   Options
	name  string
	about string // "thermal:cpu-thermal", as Open takes it
	unit  string
	hw    hw.Bounds
	find  func() (string, error) // the file, looked for whenever Sense begins
	parse func(text string) (any, error)
}

// Name is the sensor's name: "thermal_cpu-thermal", "hwmon_coretemp_core-0",
// "power_bat0", "load", "memory", or what Open was told.
func (s *Sensor) Name() string { return s.name }

// About says what is read in the form that Open takes.
func (s *Sensor) About() string { return s.about }

// Unit is the unit of the readings.
func (s *Sensor) Unit() string { return s.unit }

// Bounds are what such a reading can be, and three intervals for stale.
func (s *Sensor) Bounds() hw.Bounds {
	b := s.hw
	b.Stale = 3 * s.opt.Every
	return b
}

// String is for messages.
func (s *Sensor) String() string { return "sensor " + s.name + " (" + s.about + ")" }

// Sense reads at once and then at every interval. A file that is gone or can't
// be read ends it with an error that says what to do.
func (s *Sensor) Sense(ctx context.Context, emit func(any) error) error {
	path, err := s.find()
	if err != nil {
		return err
	}
	tick := time.NewTicker(s.opt.Every)
	defer tick.Stop()
	for {
		v, err := s.read(path)
		if err != nil {
			return err
		}
		if err := emit(hw.Reading{Value: v, Unit: s.unit}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Read reads once.
func (s *Sensor) Read() (any, error) {
	path, err := s.find()
	if err != nil {
		return nil, err
	}
	return s.read(path)
}

func (s *Sensor) read(path string) (any, error) {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("sysfs: %s: no permission to read %s; run as a member of the group that owns it", s.about, path)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("sysfs: %s: %s is gone; is the device unplugged, or its driver unloaded?", s.about, path)
	case err != nil: // drivers answer EAGAIN, EIO, ENODATA while a device sleeps
		return nil, fmt.Errorf("sysfs: %s: %w", s.about, err)
	}
	v, err := s.parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("sysfs: %s: %s: %w", s.about, path, err)
	}
	return v, nil
}

// Discover finds everything that can be read, in an order that does not change
// between boots. A class that the machine does not have is no error.
func Discover(o Options) ([]*Sensor, error) {
	o = o.filled()
	var all []*Sensor
	for _, class := range []func(Options) ([]*Sensor, error){thermal, hwmon, power, proc} {
		found, err := class(o)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b *Sensor) int { return strings.Compare(a.name, b.name) })
	unique(all)
	return all, nil
}

// unique numbers the second and third of one name.
func unique(all []*Sensor) {
	seen := map[string]int{}
	for _, s := range all {
		seen[s.name]++
		if n := seen[s.name]; n > 1 {
			s.name += "_" + strconv.Itoa(n)
			s.about += "#" + strconv.Itoa(n)
		}
	}
}

// Open makes a sensor of one thing: "thermal:<type>", "hwmon:<chip>/<label>",
// "power:<supply>[/<attribute>]", "load", "memory" (as [Sensor.About] gives
// them), or the path of a file that holds a number. The error names what there
// is.
func Open(name, about string, o Options) (*Sensor, error) {
	o = o.filled()
	if strings.HasPrefix(about, "/") {
		return file(name, about, o), nil
	}
	all, err := Discover(o)
	if err != nil {
		return nil, err
	}
	var have []string
	for _, s := range all {
		if s.about == about {
			s.name = name
			return s, nil
		}
		have = append(have, s.about)
	}
	return nil, fmt.Errorf("sysfs: %s: no %q on this machine; there are: %s", name, about, strings.Join(have, ", "))
}

// file reads a path as it is; hwmon, IIO and thermal files in the units that
// their names say.
func file(name, path string, o Options) *Sensor {
	factor, unit := 1.0, ""
	if k, ok := kindOf(filepath.Base(path)); ok {
		factor, unit = k.factor, k.unit
	} else if strings.HasPrefix(filepath.Base(filepath.Dir(path)), "thermal_zone") {
		factor, unit = 1e-3, "°C"
	}
	full := filepath.Join(o.Root, path)
	return &Sensor{opt: o, name: name, about: path, unit: unit,
		find: func() (string, error) { return full, nil }, parse: number(factor)}
}

// number reads a decimal number and scales it.
func number(factor float64) func(string) (any, error) {
	return func(text string) (any, error) {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("not a number: %.40q", text)
		}
		if inverse := 1 / factor; factor < 1 {
			return f / float64(int64(inverse+0.5)), nil // exact: 48312 m°C are 48.312 °C
		}
		return f * factor, nil
	}
}

// slug makes a name of a label.
func slug(parts ...string) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('_')
		}
		for _, c := range strings.ToLower(strings.TrimSpace(p)) {
			switch {
			case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.':
				b.WriteRune(c)
			default:
				b.WriteByte('-')
			}
		}
	}
	return b.String()
}

// attribute reads a short text file, "" if there is none.
func attribute(parts ...string) string {
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// folders lists the entries of a class; none if the machine lacks it.
func folders(o Options, class string) ([]string, error) {
	dir := filepath.Join(o.Root, "sys/class", class)
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sysfs: %w", err)
	}
	var paths []string
	for _, e := range list {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	return paths, nil
}
