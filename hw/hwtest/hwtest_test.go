package hwtest_test

import (
	"testing"
	"time"

	"edged/bus"
	"edged/hw"
	"edged/hw/hwtest"
	"edged/hw/sim"
	"edged/hw/sysfs"
)

func TestTwinActuator(t *testing.T) {
	hwtest.Actuator(t, hwtest.ActuatorBench{
		New:     func(*testing.T) hw.Actuator { return sim.NewActuator("motor", hw.Limits{}) },
		Command: `{"duty":0.5}`,
		AtRest:  func(_ *testing.T, a hw.Actuator) bool { return a.(*sim.Actuator).State() == nil },
		Slow:    func(_ *testing.T, a hw.Actuator) { a.(*sim.Actuator).Inject(sim.Fault{Late: time.Minute}) },
		Break: func(_ *testing.T, a hw.Actuator) func() {
			a.(*sim.Actuator).Inject(sim.Fault{Fail: "no answer at 0x40"})
			return func() { a.(*sim.Actuator).Inject(sim.Fault{}) }
		},
	})
}

func TestTwinSensor(t *testing.T) {
	hwtest.Sensor(t, hwtest.SensorBench{
		New: func(*testing.T) hw.Sensor {
			s := sim.NewSensor("imu", "rad")
			s.Set(0.1)
			return s
		},
		Break: func(_ *testing.T, s hw.Sensor) func() {
			s.(*sim.Sensor).Inject(sim.Fault{Fail: "no answer at 0x68"})
			return func() { s.(*sim.Sensor).Inject(sim.Fault{}) }
		},
	})
}

// The devices of the apartment.
func TestApartment(t *testing.T) {
	w := sim.New(sim.Options{Start: "hall"})
	b := bus.New(bus.Options{})
	rig, err := hw.NewRig(b, hw.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AddTo(rig); err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{"base": `{"v":0.2}`}
	for _, d := range rig.Devices() {
		dev := rig.Device(d.Name)
		t.Run(d.Name, func(t *testing.T) {
			breaks := func() func() {
				if err := w.Inject(d.Name, sim.Fault{Fail: "cable"}); err != nil {
					t.Fatal(err)
				}
				return func() { _ = w.Inject(d.Name, sim.Fault{}) }
			}
			switch dev := dev.(type) {
			case hw.Actuator:
				cmd := commands[d.Name]
				if cmd == "" {
					cmd = `{"on":true}`
				}
				hwtest.Actuator(t, hwtest.ActuatorBench{
					New:     func(*testing.T) hw.Actuator { return dev },
					Command: cmd,
					Slow: func(t *testing.T, _ hw.Actuator) {
						if err := w.Inject(d.Name, sim.Fault{Late: time.Minute}); err != nil {
							t.Fatal(err)
						}
						t.Cleanup(func() { _ = w.Inject(d.Name, sim.Fault{}) })
					},
					Break: func(*testing.T, hw.Actuator) func() { return breaks() },
				})
			case hw.Sensor:
				hwtest.Sensor(t, hwtest.SensorBench{
					New:   func(*testing.T) hw.Sensor { return dev },
					Break: func(*testing.T, hw.Sensor) func() { return breaks() },
				})
			}
		})
	}
}

func TestSysfs(t *testing.T) {
	all, err := sysfs.Discover(sysfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name() == "load" || s.Name() == "memory" {
			t.Run(s.Name(), func(t *testing.T) {
				hwtest.Sensor(t, hwtest.SensorBench{New: func(*testing.T) hw.Sensor { return s }})
			})
		}
	}
}
