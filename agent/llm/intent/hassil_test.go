package intent

import (
	"reflect"
	"testing"
)

// TestHassil is the table of what hassil documents and tests of its language:
// a template and lists, sentences, and the slots they give; nil is no match.
func TestHassil(t *testing.T) {
	type say struct {
		text  string
		slots map[string]any
	}
	none := map[string]any{}
	pct := List{Range: &Range{From: 0, To: 100}}
	wild := List{Wildcard: true}
	for _, c := range []struct {
		name      string
		sentences []string
		lists     map[string]List
		rules     map[string]string
		skip      []string
		says      []say
	}{
		{"alternatives", []string{"set to (red | green|blue)"}, nil, nil, nil, []say{
			{"set to red", none}, {"set to green", none}, {"SET TO BLUE!", none}, {"set to", nil}, {"set to red green", nil}}},
		{"suffixes", []string{"turn(s|ed|ing) [the] light[s] on"}, nil, nil, nil, []say{
			{"turns light on", none}, {"turned the lights on", none}, {"turning lights on", none}, {"turn lights on", nil}, {"turn s lights on", nil}}},
		{"optional alternatives", []string{"[this | that] test"}, nil, nil, nil, []say{{"test", none}, {"this test", none}, {"that test", none}, {"this that test", nil}}},
		{"optional with space inside", []string{"turn[ off| on] all[ the] lights"}, nil, nil, nil, []say{
			{"turn off all the lights", none}, {"turn all lights", none}, {"turnoff all lights", nil}}},
		{"nested groups", []string{"((test test2)) [a [b [c]]]"}, nil, nil, nil, []say{{"test test2", none}, {"test test2 a b c", none}, {"test test2 a b", none}, {"test test2 b", nil}}},
		{"prefix", []string{"[un]lock (down|up)stairs"}, nil, nil, nil, []say{{"lock downstairs", none}, {"unlock upstairs", none}, {"un lock upstairs", nil}}},
		{"permutation", []string{"(turn on;[the] lights;[in] {area})"}, map[string]List{"area": Words("kitchen")}, nil, nil, []say{
			{"turn on the lights in kitchen", map[string]any{"area": "kitchen"}}, {"in kitchen turn on lights", map[string]any{"area": "kitchen"}},
			{"lights kitchen turn on", map[string]any{"area": "kitchen"}}, {"turn on lights", nil}, {"lights lights kitchen turn on", nil}}},
		{"list renamed", []string{"run {script_name:name}"}, map[string]List{"script_name": Words("stealth mode")}, nil, nil, []say{
			{"run stealth mode", map[string]any{"name": "stealth mode"}}, {"run stealth", nil}}},
		{"list in and out", []string{"run test {name} [now]", "{name} test"}, map[string]List{"name": {Values: []Value{{In: "alpha ", Out: "A"}}}}, nil, nil, []say{
			{"run test alpha, now", map[string]any{"name": "A"}}, {"run test alpha!", map[string]any{"name": "A"}}, {"alpha test", map[string]any{"name": "A"}}}},
		{"list value is a template", []string{"calc[ulate] {x} {operator} {y}"}, map[string]List{"x": pct, "y": pct, "operator": {Values: []Value{{In: "(+|plus)", Out: "+"}}}}, nil, nil, []say{
			{"calc 1 + 2", map[string]any{"x": int64(1), "operator": "+", "y": int64(2)}}, {"calculate 1 plus two", map[string]any{"x": int64(1), "operator": "+", "y": int64(2)}}}},
		{"list text is normalised", []string{"run {test_name}"}, map[string]List{"test_name": Words("tEsT    1")}, nil, nil, []say{{"run test 1", map[string]any{"test_name": "tEsT    1"}}}},
		{"possessive", []string{"open {who}'s door"}, map[string]List{"who": Words("alice", "bob")}, nil, nil, []say{
			{"open alice's door", map[string]any{"who": "alice"}}, {"open bobs door", map[string]any{"who": "bob"}}, {"open carls door", nil}}},
		{"list with ending", []string{"feed the {pet}[s]"}, map[string]List{"pet": Words("cat", "guinea pig")}, nil, nil, []say{
			{"feed the cats", map[string]any{"pet": "cat"}}, {"feed the guinea pig", map[string]any{"pet": "guinea pig"}}, {"feed the guinea pigs", map[string]any{"pet": "guinea pig"}}}},
		{"percent", []string{"set {p}[%] [now]", "{p}[%| percent] set"}, map[string]List{"p": pct}, nil, nil, []say{
			{"set 50% now", map[string]any{"p": int64(50)}}, {"set 50%", map[string]any{"p": int64(50)}}, {"50% set", map[string]any{"p": int64(50)}},
			{"fifty percent set", map[string]any{"p": int64(50)}}, {"set 101%", nil}, {"set -1", nil}}},
		{"range words only", []string{"calc {x}"}, map[string]List{"x": {Range: &Range{From: 0, To: 100, NoDigits: true}}}, nil, nil, []say{{"calc 1", nil}, {"calc one", map[string]any{"x": int64(1)}}}},
		{"range digits only", []string{"calc {x}"}, map[string]List{"x": {Range: &Range{From: 0, To: 100, NoWords: true}}}, nil, nil, []say{{"calc one", nil}, {"calc 1", map[string]any{"x": int64(1)}}}},
		{"large number words", []string{"calc {x} + {y}"}, map[string]List{"x": {Range: &Range{To: 3000}}, "y": {Range: &Range{To: 3000}}}, nil, nil, []say{
			{"calc one thousand nine hundred ninety-nine + 23", map[string]any{"x": int64(1999), "y": int64(23)}}, {"calc 23 + nineteen ninety-nine", nil}}},
		{"range step", []string{"to {x}"}, map[string]List{"x": {Range: &Range{From: 10, To: 30, Step: 5}}}, nil, nil, []say{{"to 15", map[string]any{"x": int64(15)}}, {"to thirty", map[string]any{"x": int64(30)}}, {"to 16", nil}, {"to 35", nil}, {"to 5", nil}}},
		{"range halves", []string{"{x} degrees"}, map[string]List{"x": {Range: &Range{From: -10, To: 30, Step: 0.5}}}, nil, nil, []say{
			{"20.5 degrees", map[string]any{"x": 20.5}}, {"minus 3 degrees", map[string]any{"x": int64(-3)}}, {"-3 degrees", map[string]any{"x": int64(-3)}}, {"twenty and a half degrees", map[string]any{"x": 20.5}}, {"20.25 degrees", nil}}},
		{"range multiplier", []string{"set volume to {v}"}, map[string]List{"v": {Range: &Range{To: 100, Multiplier: 0.01}}}, nil, nil, []say{{"set volume to 50", map[string]any{"v": 0.5}}}},
		{"rules", []string{"<verb> <subject> on <where>", "<verb> <subject> <where> on"}, map[string]List{"area": Words("kitchen")},
			map[string]string{"verb": "(are|is)", "subject": "[all] [the] light[s]", "where": "[in <area>]", "area": "[the] {area}"}, nil, []say{
				{"are the lights on in the kitchen", map[string]any{"area": "kitchen"}}, {"are the lights in the kitchen on", map[string]any{"area": "kitchen"}}, {"is all light on", none}}},
		{"apostrophes", []string{"(what's | whats | what is) up"}, nil, nil, nil, []say{{"what's up?", none}, {"whats up", none}, {"What’s up", none}}},
		{"skip words", []string{"run {n}"}, map[string]List{"n": Words("test")}, nil, []string{"the", "could", "could you", "please"}, []say{
			{"run the test", map[string]any{"n": "test"}}, {"could you run test, please", map[string]any{"n": "test"}}, {"you run test", nil}}},
		{"commas", []string{"turn on [the] {name}", "turn on [the] {area} lights"}, map[string]List{"name": Words("lamp"), "area": Words("living room")}, nil, nil, []say{
			{"turn, on the, living room lights", map[string]any{"area": "living room"}}, {"turn on the living room, lights", map[string]any{"area": "living room"}}}},
		{"escapes", []string{`say \(hello\) \{x\} 100\%`}, nil, nil, nil, []say{{"say (hello) {x} 100%", none}, {"say hello x 100%", none}}},
		{"hyphens", []string{"turn on wake-on-lan"}, nil, nil, nil, []say{{"turn on wake on lan", none}, {"turn on wake_on-LAN", none}}},
		{"wildcards", []string{"play {album} by {artist}[ please] now", "start {album} by {artist}", "begin {album} by artist {artist}"}, map[string]List{"album": wild, "artist": wild}, nil, nil, []say{
			{"play The White Album by The Beatles please now", map[string]any{"album": "The White Album", "artist": "The Beatles"}}, {"play by please now", nil},
			{"start the white album by the beatles", map[string]any{"album": "the white album", "artist": "the beatles"}},
			{"begin day by day by artist taken by trees", map[string]any{"album": "day by day", "artist": "taken by trees"}}}},
		{"optional wildcard", []string{"play {album}[by {artist}]"}, map[string]List{"album": wild, "artist": wild}, nil, nil, []say{
			{"play the white album by the beatles", map[string]any{"album": "the white album", "artist": "the beatles"}}, {"play the white album", map[string]any{"album": "the white album"}}}},
		{"wildcard order", []string{"play {album} by {artist}", "play {album} by {artist} in {room}"}, map[string]List{"album": wild, "artist": wild, "room": wild}, nil, nil, []say{
			{"play the white album by the beatles in the living room", map[string]any{"album": "the white album", "artist": "the beatles", "room": "the living room"}},
			{"play the white album by the beatles", map[string]any{"album": "the white album", "artist": "the beatles"}}}},
		{"wildcard without punctuation", []string{"is {name} in {zone}"}, map[string]List{"name": wild, "zone": wild}, nil, nil, []say{{"is Alice in New York!?", map[string]any{"name": "Alice", "zone": "New York"}}}},
		{"wildcard then range or list", []string{"set timer {timer_name:name} {minutes} minute[s]", "set timer {timer_name:name} {state} [now]"},
			map[string]List{"timer_name": wild, "minutes": {Range: &Range{From: 1, To: 59}}, "state": Words("on", "off")}, nil, nil, []say{
				{"set timer pizza 5 minutes", map[string]any{"name": "pizza", "minutes": int64(5)}}, {"set timer pizza five minutes", map[string]any{"name": "pizza", "minutes": int64(5)}},
				{"set timer a big long name on now", map[string]any{"name": "a big long name", "state": "on"}}}},
		{"literal words beat values", []string{"turn on {light} in {room}", "turn on {light}"}, map[string]List{"light": Words("light", "light in bedroom"), "room": Words("bedroom")}, nil, nil, []say{
			{"turn on light in bedroom", map[string]any{"light": "light", "room": "bedroom"}}}},
		{"best is the most literal", []string{"{anything} lamp", "turn on {area} lamp", "turn on {name}"}, map[string]List{"anything": wild, "area": Words("bedroom"), "name": Words("bedroom lamp")}, nil, nil, []say{
			{"turn on bedroom lamp", map[string]any{"area": "bedroom"}}, {"old lamp", map[string]any{"anything": "old"}}}},
		{"list values share beginnings", []string{"turn on ({area} {name}|{name})"}, map[string]List{"area": Words("bedroom"), "name": Words("bedroom lamp", "lamp", "bedroom lamp two")}, nil, nil, []say{
			{"turn on bedroom lamp two", map[string]any{"name": "bedroom lamp two"}}, {"turn on lamp", map[string]any{"name": "lamp"}}}},
		{"other scripts", []string{"打开{room}[的]灯", "включи [в] {room} свет", "ouvre l'{place}", "اذهب إلى {room}"}, map[string]List{"room": Words("厨房", "кухне", "المطبخ"), "place": Words("eau")}, nil, nil, []say{
			{"打开厨房的灯。", map[string]any{"room": "厨房"}}, {"Включи в кухне свет", map[string]any{"room": "кухне"}}, {"ouvre l'eau", map[string]any{"place": "eau"}}, {"اذهب إلى المطبخ؟", map[string]any{"room": "المطبخ"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := compile(t, Options{Lists: c.lists, Rules: c.rules, SkipWords: c.skip, Fuzzy: 1}, Intent{Tool: "x", Sentences: c.sentences})
			for _, s := range c.says {
				got, ok := m.Match(s.text)
				if ok != (s.slots != nil) || ok && !reflect.DeepEqual(got.Slots, s.slots) {
					t.Errorf("%q: got %v %v, want %v", s.text, ok, got.Slots, s.slots)
				}
			}
		})
	}
}

func TestContext(t *testing.T) {
	names := List{Values: []Value{
		{In: "hue", Out: "light.hue", Context: map[string]any{"domain": "light"}},
		{In: "garage door", Out: "cover.garage_door", Context: map[string]any{"domain": "cover"}},
		{In: "roku", Out: "media_player.roku", Context: map[string]any{"domain": "media_player"}},
		{In: "lamp", Out: "cover.lamp", Context: map[string]any{"domain": "cover"}},
		{In: "lamp", Out: "light.lamp", Context: map[string]any{"domain": "light"}},
	}}
	m := compile(t, Options{Lists: map[string]List{"name": names}, Fuzzy: 1},
		Intent{Tool: "bright", Sentences: []string{"set brightness of [the] {name} to 50"}, Requires: map[string]any{"domain": "light"}},
		Intent{Tool: "close", Sentences: []string{"close [the] {name}"}, Requires: map[string]any{"domain": "cover"}},
		Intent{Tool: "play", Sentences: []string{"play [the] {name}"}, Excludes: map[string]any{"domain": []any{"cover", "light"}}},
		Intent{Tool: "curtains", Sentences: []string{"close [the] curtains"}, Requires: map[string]any{"area": Need{Slot: "area"}, "mode": "home"}},
	)
	for _, c := range []struct {
		say     string
		context map[string]any
		tool    string
		slots   map[string]any
	}{
		{"set brightness of the hue to 50", nil, "bright", map[string]any{"name": "light.hue"}},
		{"set brightness of the garage door to 50", nil, "", nil},
		{"set brightness of the lamp to 50", nil, "bright", map[string]any{"name": "light.lamp"}},
		{"close the garage door", nil, "close", map[string]any{"name": "cover.garage_door"}},
		{"close the hue", nil, "", nil},
		{"play roku", nil, "play", map[string]any{"name": "media_player.roku"}},
		{"play the garage door", nil, "", nil},
		{"close the curtains", nil, "", nil},
		{"close the curtains", map[string]any{"area": "living room"}, "", nil},
		{"close the curtains", map[string]any{"area": "living room", "mode": "away"}, "", nil},
		{"close the curtains", map[string]any{"area": map[string]any{"value": "living_room"}, "mode": "home"}, "curtains", map[string]any{"area": "living_room"}},
	} {
		got, ok := m.MatchIn(c.say, c.context)
		if got.Tool != c.tool || ok && !reflect.DeepEqual(got.Slots, c.slots) {
			t.Errorf("%q in %v: got %q %v, want %q %v", c.say, c.context, got.Tool, got.Slots, c.tool, c.slots)
		}
	}
}
