package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
	"edged/hw"
	"edged/hw/sim"
)

// flat is a world with its rig and everything published, in a bubble.
type flat struct {
	*sim.World
	rig *hw.Rig
	b   *bus.Bus
	ctx context.Context
	mu  sync.Mutex
	got []bus.Event
}

func inFlat(t *testing.T, o sim.Options, f func(t *testing.T, w *flat)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		rig, err := hw.NewRig(b, hw.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := &flat{World: sim.New(o), rig: rig, b: b, ctx: ctx}
		if err := w.AddTo(rig); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Tap("hw/#", func(e bus.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.got = append(w.got, e)
		}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		run := func(serve func(context.Context) error) {
			all.Go(func() {
				if err := serve(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		run(w.Serve)
		for _, s := range rig.Services() {
			run(s.Serve)
		}
		synctest.Wait()
		f(t, w)
		cancel()
		all.Wait()
		rig.Close()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// last is the newest payload of a topic.
func (w *flat) last(topic string) map[string]any {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.got) - 1; i >= 0; i-- {
		if w.got[i].Topic == topic {
			m, _ := w.got[i].Payload().(map[string]any)
			return m
		}
	}
	return nil
}

func (w *flat) count(topic string) (n int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.got {
		if e.Topic == topic {
			n++
		}
	}
	return n
}

func (w *flat) start(t *testing.T, action string, args any) *hw.Goal {
	t.Helper()
	g, err := w.rig.Start(w.ctx, "test", "base", action, args)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestDrivesFromRoomToRoom(t *testing.T) {
	for _, from := range []string{"dock", "kitchen", "living", "hall", "bedroom"} {
		for _, to := range []string{"dock", "kitchen", "living", "hall", "bedroom"} {
			t.Run(from+" to "+to, func(t *testing.T) {
				inFlat(t, sim.Options{Start: from}, func(t *testing.T, w *flat) {
					closest := math.Inf(1)
					if _, err := w.b.Tap("hw/pose", func(bus.Event) {
						w.mu.Lock()
						defer w.mu.Unlock()
						closest = min(closest, w.Clearance())
					}); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					g := w.start(t, "drive_to", map[string]any{"room": to})
					res, err := g.Result(w.ctx)
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if w.Room() != to || res.(map[string]any)["room"] != to {
						t.Errorf("in %s, result %v", w.Room(), res)
					}
					if d := time.Since(began); d > 45*time.Second {
						t.Errorf("took %v", d)
					}
					w.mu.Lock()
					defer w.mu.Unlock()
					if closest < 0 {
						t.Errorf("touched something: %v", closest)
					}
					if v, o := w.Velocity(); v != 0 || o != 0 {
						t.Errorf("still moving: %v %v", v, o)
					}
				})
			})
		}
	}
}

func TestMovesAtOnceAndTellsHowFar(t *testing.T) {
	inFlat(t, sim.Options{}, func(t *testing.T, w *flat) {
		g := w.start(t, "drive_to", map[string]any{"room": "kitchen"})
		time.Sleep(60 * time.Millisecond)
		if v, o := w.Velocity(); v == 0 && o == 0 {
			t.Error("not moving after 60 ms")
		}
		time.Sleep(5 * time.Second)
		fb, _ := g.Last().(map[string]any)
		first, _ := fb["left"].(float64)
		time.Sleep(5 * time.Second)
		fb, _ = g.Last().(map[string]any)
		if second, _ := fb["left"].(float64); !(second > 0 && second < first) {
			t.Errorf("left %v, then %v", first, second)
		}
		if g.State() != hw.Running {
			t.Errorf("state %s", g.State())
		}
		g.Cancel("enough")
		time.Sleep(100 * time.Millisecond)
		if v, o := w.Velocity(); v != 0 || o != 0 {
			t.Errorf("still moving 100 ms after the cancel: %v %v", v, o)
		}
		if _, err := g.Result(w.ctx); !errors.Is(err, hw.ErrGoalCancelled) || !strings.Contains(err.Error(), "enough") {
			t.Errorf("got %v", err)
		}
	})
}

func TestStopMidWay(t *testing.T) {
	inFlat(t, sim.Options{}, func(t *testing.T, w *flat) {
		g := w.start(t, "drive_to", map[string]any{"room": "kitchen"})
		time.Sleep(4 * time.Second)
		before := time.Now()
		if err := w.rig.Stop(w.ctx, "cli", "operator"); err != nil {
			t.Fatal(err)
		}
		if v, o := w.Velocity(); v != 0 || o != 0 || time.Since(before) != 0 {
			t.Errorf("velocity %v %v after %v", v, o, time.Since(before))
		}
		if g.State() != hw.Cancelled {
			t.Errorf("goal %s", g.State())
		}
		x, y, _ := w.Pose()
		time.Sleep(10 * time.Second)
		if x2, y2, _ := w.Pose(); x2 != x || y2 != y {
			t.Error("moved after the stop")
		}
		if _, err := w.rig.Start(w.ctx, "test", "base", "drive_to", map[string]any{"room": "hall"}); !errors.Is(err, hw.ErrStopped) {
			t.Errorf("got %v", err)
		}
		w.rig.Resume(w.ctx, "cli")
		time.Sleep(time.Second)
		if x2, y2, _ := w.Pose(); x2 != x || y2 != y {
			t.Error("moved by itself after resume")
		}
	})
}

func TestVelocityCommandsLapse(t *testing.T) {
	inFlat(t, sim.Options{Start: "hall"}, func(t *testing.T, w *flat) {
		if err := w.rig.Do(w.ctx, "test", "base", map[string]any{"v": 0.3}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(400 * time.Millisecond)
		if v, _ := w.Velocity(); v != 0.3 {
			t.Errorf("v = %v", v)
		}
		time.Sleep(200 * time.Millisecond)
		if v, _ := w.Velocity(); v != 0 {
			t.Errorf("v = %v after the lifetime", v)
		}
		if err := w.rig.Do(w.ctx, "test", "base", map[string]any{"v": 3}); !errors.Is(err, hw.ErrLimit) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTurns(t *testing.T) {
	inFlat(t, sim.Options{Start: "hall"}, func(t *testing.T, w *flat) {
		for _, deg := range []float64{90, -180, 30, 360} {
			_, _, before := w.Pose()
			if _, err := w.start(t, "turn", map[string]any{"angle_deg": deg}).Result(w.ctx); err != nil {
				t.Fatal(err)
			}
			_, _, after := w.Pose()
			if off := math.Remainder(after-before-deg*math.Pi/180, 2*math.Pi); math.Abs(off) > 0.05 {
				t.Errorf("turn by %v° is off by %.3f rad", deg, off)
			}
		}
	})
}

func TestIdleIsIdle(t *testing.T) {
	inFlat(t, sim.Options{}, func(t *testing.T, w *flat) {
		n := w.count("hw/pose") + w.count("hw/lidar")
		time.Sleep(time.Hour)
		if m := w.count("hw/pose") + w.count("hw/lidar"); m != n || n != 2 {
			t.Errorf("%d events at the start, %d after an idle hour", n, m)
		}
	})
}

func TestBatteryAndDock(t *testing.T) {
	inFlat(t, sim.Options{Battery: 50, Drain: 0.1}, func(t *testing.T, w *flat) {
		if got := w.last("hw/charging"); got["value"] != true {
			t.Errorf("in the dock: %v", got)
		}
		time.Sleep(20 * time.Second)
		if b := w.Battery(); b < 59 || b > 61 {
			t.Errorf("battery %v after 20 s of charging", b)
		}
		if _, err := w.start(t, "drive_to", map[string]any{"room": "bedroom"}).Result(w.ctx); err != nil {
			t.Fatal(err)
		}
		if got := w.last("hw/charging"); got["value"] != false {
			t.Errorf("in the bedroom: %v", got)
		}
		low := w.Battery()
		if low > 59.5 {
			t.Errorf("battery %v after the drive", low)
		}
		if _, err := w.start(t, "dock", nil).Result(w.ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if b := w.Battery(); b < low+20 {
			t.Errorf("battery %v after a minute in the dock, it was %v", b, low)
		}
		w.SetBattery(0)
		if _, err := w.start(t, "drive_to", map[string]any{"room": "hall"}).Result(w.ctx); err == nil {
			t.Error("drove on an empty battery")
		}
	})
}

func TestObstacles(t *testing.T) {
	inFlat(t, sim.Options{Start: "hall"}, func(t *testing.T, w *flat) {
		// Something in the way while under way: another way round.
		g := w.start(t, "drive_to", map[string]any{"x": 0.6, "y": 3.0})
		time.Sleep(2 * time.Second)
		x, y, _ := w.Pose()
		w.SetObstacle("box", x-1, y+0.15, 0.15)
		if _, err := g.Result(w.ctx); err != nil {
			t.Errorf("round a box: %v", err)
		}
		// All doors of the kitchen shut: it waits, then gives up.
		if err := errors.Join(w.SetDoor("kitchen", false), w.SetDoor("passage", false)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.rig.Start(w.ctx, "test", "base", "drive_to", map[string]any{"room": "kitchen"}); err == nil || !strings.Contains(err.Error(), "there is no way") {
			t.Errorf("into a locked room: %v", err)
		}
		// The other door is found.
		if err := w.SetDoor("passage", true); err != nil {
			t.Fatal(err)
		}
		g = w.start(t, "drive_to", map[string]any{"room": "kitchen"})
		time.Sleep(3 * time.Second)
		if err := w.SetDoor("passage", false); err != nil { // shut before it is there
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := g.Result(w.ctx); err == nil || !strings.Contains(err.Error(), "blocked") {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestBump(t *testing.T) {
	inFlat(t, sim.Options{Start: "hall"}, func(t *testing.T, w *flat) {
		x, y, _ := w.Pose()
		w.SetObstacle("cat", x+0.6, y, 0.1)
		for range 10 {
			if err := w.rig.Do(w.ctx, "test", "base", map[string]any{"v": 0.5}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if got := w.last("hw/bump"); got["value"] != true {
			t.Errorf("bump: %v", got)
		}
		if c := w.Clearance(); c < 0 || c > 0.05 {
			t.Errorf("clearance %v", c)
		}
		for range 4 { // backing off is allowed
			if err := w.rig.Do(w.ctx, "test", "base", map[string]any{"v": -0.3}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if got := w.last("hw/bump"); got["value"] != false {
			t.Errorf("bump after backing off: %v", got)
		}
	})
}

func TestSensors(t *testing.T) {
	inFlat(t, sim.Options{Start: "hall", Noise: -1}, func(t *testing.T, w *flat) {
		lidar, _ := w.last("hw/lidar")["value"].(map[string]any)
		rays, _ := lidar["ranges"].([]any)
		// From (4.2, 3.0), looking right: the wall at 8, left the one at 3.6.
		if len(rays) != sim.Rays || rays[0] != 3.8 || rays[9] != 0.6 || lidar["min"] != 0.6 {
			t.Errorf("lidar: %v", lidar)
		}
		if got := w.last("hw/temp_kitchen"); got["value"] != 21.0 || got["unit"] != "°C" || got["quality"] != "good" {
			t.Errorf("temperature: %v", got)
		}
		if err := w.SetHeat("kitchen", 61); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Second)
		got, _ := w.last("hw/temp_kitchen")["value"].(float64)
		if got < 45 || got > 47 { // 63 % of the way
			t.Errorf("after a minute of heat: %v", got)
		}
		if err := w.SetTemp("kitchen", 99); err != nil {
			t.Fatal(err)
		}
		if got := w.last("hw/temp_kitchen"); got["quality"] != "range" {
			t.Errorf("out of range: %v", got)
		}
		if err := w.rig.Do(w.ctx, "test", "lamp_kitchen", map[string]any{"on": true, "brightness": 40}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if w.Lamp("kitchen") != 40 {
			t.Errorf("lamp %v", w.Lamp("kitchen"))
		}
	})
}

func TestFaults(t *testing.T) {
	inFlat(t, sim.Options{}, func(t *testing.T, w *flat) {
		const topic = "hw/temp_hall"
		check := func(f sim.Fault, d time.Duration) {
			t.Helper()
			if err := w.Inject("temp_hall", f); err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
		}
		check(sim.Fault{Stuck: true, Value: 75.0}, 0)
		if got := w.last(topic); got["value"] != 75.0 {
			t.Errorf("stuck: %v", got)
		}
		n := w.count(topic)
		check(sim.Fault{Drop: 1}, 21*time.Second)
		if got := w.last(topic); got["quality"] != "stale" || w.count(topic) != n+1 {
			t.Errorf("dropped: %v", got)
		}
		check(sim.Fault{Fail: "no such bus"}, 0)
		if got := w.last(topic); got["quality"] != "missing" {
			t.Errorf("failed: %v", got)
		}
		check(sim.Fault{}, time.Minute)
		if got := w.last(topic); got["quality"] != "good" {
			t.Errorf("healed: %v", got)
		}
		if err := w.Inject("nose", sim.Fault{}); err == nil {
			t.Error("unknown device: no error")
		}
		if err := w.Inject("lamp_hall", sim.Fault{Fail: "bulb"}); err != nil {
			t.Fatal(err)
		}
		if err := w.rig.Do(w.ctx, "test", "lamp_hall", map[string]any{"on": true}); err == nil || !strings.Contains(err.Error(), "bulb") {
			t.Errorf("faulty lamp: %v", err)
		}
		if err := w.Inject("lamp_hall", sim.Fault{}); err != nil {
			t.Fatal(err)
		}
	})
}

// The same seed gives the same run, to the last digit.
func TestDeterministic(t *testing.T) {
	trip := func() (out string) {
		inFlat(t, sim.Options{Seed: 7}, func(t *testing.T, w *flat) {
			if _, err := w.start(t, "drive_to", map[string]any{"room": "bedroom"}).Result(w.ctx); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			out = fmt.Sprint(w.Pose()) + fmt.Sprint(w.last("hw/lidar"), w.last("hw/temp_hall"), w.count("hw/base/set"))
		})
		return out
	}
	first := trip()
	for range 3 {
		if again := trip(); again != first {
			t.Errorf("got\n%s\nfirst\n%s", again, first)
		}
	}
}

func TestBadGoals(t *testing.T) {
	inFlat(t, sim.Options{}, func(t *testing.T, w *flat) {
		for _, c := range []struct {
			action string
			args   any
			want   string
		}{
			{"drive_to", map[string]any{"room": "attic"}, `no room "attic"; there are [kitchen living hall bedroom dock]`},
			{"drive_to", map[string]any{"rom": "hall"}, `unknown field "rom"`},
			{"drive_to", nil, "where to?"},
			{"drive_to", map[string]any{"x": 1}, "where to?"},
			{"drive_to", map[string]any{"x": math.NaN(), "y": 1}, "NaN"},
			{"drive_to", map[string]any{"x": 99, "y": 1}, "outside the apartment"},
			{"drive_to", map[string]any{"x": 0.01, "y": 1}, "too close to a wall"},
			{"drive_to", map[string]any{"room": "hall", "speed": -1}, "not above 0"},
			{"turn", map[string]any{}, "by how much?"},
			{"turn", map[string]any{"angle": 1e9}, "more than ten turns"},
			{"fly", nil, `no action "fly"; it has drive_to, turn, dock`},
		} {
			_, err := w.rig.Start(w.ctx, "test", "base", c.action, c.args)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v: got %v, want %q", c.action, c.args, err, c.want)
			}
		}
		if n := len(w.rig.Goals()); n != 0 {
			t.Errorf("%d goals left", n)
		}
	})
}

func ExampleMap() {
	w := sim.New(sim.Options{})
	fmt.Print(w.Map())
	// Output:
	// │───────────────────────│────────────────────────
	// │                       │                       │
	// │                       │                       │
	// │     kitchen                      living       │
	// │                       │                       │
	// │                       │                       │
	// ───────────    ─────────│──────────    ──────────
	// │                                               │
	// │                      hall                     │
	// ───────────────────    ───────│                 │
	// │                             │                 │
	// │                             │                 │
	// │                             │                 │
	// │         bedroom             │                 │
	// │                             │             ↓   │
	// │─────────────────────────────│─────────────────│
}
