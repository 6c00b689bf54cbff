package lib_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"edged/starlark/lib"
)

// TestWhoMayHear: what a grant of keys and devices lets a script listen to, and
// what it doesn't.
func TestWhoMayHear(t *testing.T) {
	keys, all := lib.Grants{BB: []string{"door/*"}}, lib.Grants{BB: []string{"*"}}
	lidar, devices := lib.Grants{HWRead: []string{"lidar"}}, lib.Grants{HWRead: []string{"*"}}
	for _, c := range []struct {
		grants lib.Grants
		filter string
		want   bool
	}{
		{lib.Grants{}, "board/door/front", false}, {lib.Grants{}, "home/x", false}, {lib.Grants{}, "hw/lidar", false},
		{keys, "board/door/front", true}, {keys, "request/door/front", true}, {keys, "board/window", false}, {keys, "request/window", false},
		{keys, "door/front", false}, {keys, "home/door/front", false}, {keys, "board/door/+", false}, {keys, "request/door/#", false}, {keys, "board/#", false},
		{all, "board/anything", true}, {all, "request/anything", true}, {all, "anything", false}, {all, "home/x", false}, {all, "board/+", false}, {all, "#", false},
		{lidar, "hw/lidar", true}, {lidar, "hw/lidar/set", true}, {lidar, "hw/arm", false}, {lidar, "hw/+", false}, {lidar, "hw/#", false}, {lidar, "lidar", false},
		{devices, "hw/arm", true}, {devices, "hw/#", true}, {devices, "home/x", false},
		{lib.Grants{BusSub: []string{"home/#"}}, "home/x", true}, {lib.Grants{BusSub: []string{"home/#"}}, "homes/x", false},
	} {
		r := newRig(t)
		main := "on(\"" + c.filter + "\", lambda ev: None)\n"
		b, err := lib.Load(context.Background(), r.host, fstest.MapFS{"main.star": {Data: []byte(main)}}, lib.Options{Grants: c.grants})
		if err == nil {
			_ = b.Stop(context.Background())
		}
		if got := err == nil; got != c.want {
			t.Errorf("%+v, on(%q): allowed %v, want %v (%v)", c.grants, c.filter, got, c.want, err)
		}
		if err != nil && !strings.Contains(shown(err), "bus.sub = [\""+c.filter+"\"]") {
			t.Errorf("on(%q): %q names no line to add", c.filter, shown(err))
		}
		r.close()
	}
}
