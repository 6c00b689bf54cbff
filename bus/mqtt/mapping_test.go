package mqtt

import (
	"strings"
	"testing"

	"edged/bus"
)

func TestMapping(t *testing.T) {
	for _, tc := range []struct {
		name    string
		m       Mapping
		in, out [][2]string // topic → topic, "" = not mapped
	}{
		{"all", All(),
			[][2]string{{"a/b", "a/b"}, {"$SYS/x", ""}, {"board/x", ""}, {"edged/safety/stop", ""}, {"message/scout", ""}, {"request/x", ""}, {"boards/x", "boards/x"}},
			[][2]string{{"a/b", "a/b"}, {"board/x", "board/x"}, {"edged/error", "edged/error"}, {"message/scout", ""}, {"$x", ""}}},
		{"prefixes", Mapping{InPrefix: "cloud/", OutPrefix: "robot1/",
			Subscribe: []Route{{Filter: "cmd/+", Strip: "cmd/", Prefix: "do/"}, {Filter: "raw/#"}},
			Publish:   []Route{{Filter: "hw/#", Strip: "hw/"}, {Filter: "a", Prefix: "x/"}}},
			[][2]string{{"cmd/go", "cloud/do/go"}, {"cmd/a/b", ""}, {"raw", "cloud/raw"}, {"raw/x", "cloud/raw/x"}, {"other", ""}},
			[][2]string{{"hw/imu", "robot1/imu"}, {"hw", "robot1/hw"}, {"a", "robot1/x/a"}, {"b", ""}}},
		{"own topics by name", Mapping{Subscribe: []Route{{Filter: "r2/board/#", Strip: "r2/"}, {Filter: "r2/#", Strip: "r2/"}},
			Publish: []Route{{Filter: "+/x"}, {Filter: "request/#"}}},
			[][2]string{{"r2/board/x", "board/x"}, {"r2/edged/x", ""}, {"r2/home", "home"}},
			[][2]string{{"board/x", ""}, {"request/x", "request/x"}, {"a/x", "a/x"}}},
		{"nothing", Mapping{}, [][2]string{{"a", ""}}, [][2]string{{"a", ""}}},
		{"first route counts", Mapping{Publish: []Route{{Filter: "a/b", Prefix: "1/"}, {Filter: "a/#", Prefix: "2/"}}},
			nil, [][2]string{{"a/b", "1/a/b"}, {"a/c", "2/a/c"}}},
	} {
		m, err := newMapper(tc.m)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time from memory
			for _, p := range tc.in {
				if v := m.inward(p[0]); v.topic != p[1] || (v.route < 0) != (p[1] == "") {
					t.Errorf("%s: in %s: got %q, want %q", tc.name, p[0], v.topic, p[1])
				}
				if back, ok := m.back(p[1]); p[1] != "" && (!ok || back != p[0]) {
					t.Errorf("%s: back %s: got %q, want %q", tc.name, p[1], back, p[0])
				}
			}
			for _, p := range tc.out {
				if v := m.outward(p[0]); v.topic != p[1] {
					t.Errorf("%s: out %s: got %q, want %q", tc.name, p[0], v.topic, p[1])
				}
			}
		}
	}
}

func TestMemoIsBounded(t *testing.T) {
	m, err := newMapper(All())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 * memoTopics {
		m.inward(strings.Repeat("x", i%700) + "/" + strings.Repeat("y", i/700))
	}
	if n := len(m.ins.now) + len(m.ins.old); n > 2*memoTopics {
		t.Errorf("got %d topics remembered, want at most %d", n, 2*memoTopics)
	}
}

func FuzzMapping(f *testing.F) {
	f.Add("a/#", "a/", "b/", "in/", "a/x")
	f.Add("+/board/#", "", "", "", "x/board/y")
	f.Fuzz(func(t *testing.T, filter, strip, prefix, outer, topic string) {
		r := Route{Filter: filter, Strip: strip, Prefix: prefix}
		m, err := newMapper(Mapping{Subscribe: []Route{r}, Publish: []Route{r}, InPrefix: outer, OutPrefix: outer})
		if err != nil {
			return
		}
		if v := m.inward(topic); v.route >= 0 {
			if err := bus.ValidTopic(v.topic); err != nil {
				t.Fatalf("%q → %q: %v", topic, v.topic, err)
			}
			level, _, _ := strings.Cut(v.topic, "/")
			if bus.Runtime(level) && !strings.HasPrefix(outer+prefix+strings.TrimPrefix(filter, strip), level) {
				t.Fatalf("%q reached %q without naming it", filter, v.topic)
			}
			if back, ok := m.back(v.topic); ok && m.inward(back).topic != v.topic {
				t.Fatalf("%q goes back to %q", v.topic, back)
			}
		}
		if bus.ValidTopic(topic) == nil {
			if v := m.outward(topic); v.route >= 0 && bus.ValidTopic(v.topic) != nil {
				t.Fatalf("%q → %q", topic, v.topic)
			}
		}
	})
}
