package intent

import (
	"reflect"
	"strings"
	"testing"
)

func compile(t testing.TB, o Options, intents ...Intent) *Model {
	t.Helper()
	m, err := Compile(intents, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func robot(t testing.TB) *Model {
	rooms := Words("kitchen", "living room", "hall", "dock")
	rng := func(from, to, step float64) List { return List{Range: &Range{From: from, To: to, Step: step}} }
	return compile(t, Options{
		Lists: map[string]List{
			"place": rooms, "angle": rng(1, 360, 0), "meters": rng(0.5, 10, 0.5), "minutes": rng(1, 120, 0), "percent": rng(0, 100, 0),
			"side": {Values: []Value{{In: "left"}, {In: "right"}}},
			"task": {Wildcard: true},
		},
		Rules: map[string]string{"go": "(go|drive|move|take me)", "degrees": "degree[s]|°"},
	},
		Intent{Tool: "go_to", Sentences: []string{"<go> to [the] {place}"}, Response: "Going to the {place}."},
		Intent{Tool: "turn", Sentences: []string{"turn {side} [by] {angle} [(<degrees>)]", "turn [by] {angle} [(<degrees>)] [to the] {side}"}, Response: "Turning {side} by {angle.value} degrees."},
		Intent{Tool: "drive", Sentences: []string{"(drive|move|go) forward[s] {meters:distance} (meter|metre)[s]"}, Slots: map[string]any{"speed": 0.3}},
		Intent{Tool: "timer", Sentences: []string{"set [a] timer for {minutes} minute[s]"}},
		Intent{Tool: "light", Name: "LightOn", Sentences: []string{"turn on [the] light[s] [in [the] {place}]", "turn [the] light[s] on [in [the] {place}]"}, Slots: map[string]any{"on": true}},
		Intent{Tool: "light", Name: "LightOff", Sentences: []string{"turn off [the] light[s] [in [the] {place}]"}, Slots: map[string]any{"on": false}},
		Intent{Tool: "dim", Sentences: []string{"dim [the] light[s] to {percent}[%| percent]"}},
		Intent{Tool: "remind", Sentences: []string{"remind me to {task}"}},
		Intent{Name: "hello", Sentences: []string{"(hello|hi) robot", "who are you"}, Response: "Hello, I am a robot."},
	)
}

func TestRobot(t *testing.T) {
	m := robot(t)
	for _, c := range []struct {
		say, intent string
		slots       map[string]any
	}{
		{"go to the kitchen", "go_to", map[string]any{"place": "kitchen"}},
		{"Drive to living room!", "go_to", map[string]any{"place": "living room"}},
		{"turn left ninety degrees", "turn", map[string]any{"side": "left", "angle": int64(90)}},
		{"turn left by 90°", "turn", map[string]any{"side": "left", "angle": int64(90)}},
		{"turn twenty one degrees to the right", "turn", map[string]any{"side": "right", "angle": int64(21)}},
		{"turn one hundred and eighty degrees left", "turn", map[string]any{"side": "left", "angle": int64(180)}},
		{"turn a hundred degrees left", "turn", map[string]any{"side": "left", "angle": int64(100)}},
		{"drive forward half a meter", "drive", map[string]any{"distance": 0.5, "speed": 0.3}},
		{"drive forward two and a half meters", "drive", map[string]any{"distance": 2.5, "speed": 0.3}},
		{"move forwards 1.5 metres", "drive", map[string]any{"distance": 1.5, "speed": 0.3}},
		{"move forward two point five meters", "drive", map[string]any{"distance": 2.5, "speed": 0.3}},
		{"turn the lights on in the hall", "LightOn", map[string]any{"place": "hall", "on": true}},
		{"turn off lights", "LightOff", map[string]any{"on": false}},
		{"dim the lights to 40%", "dim", map[string]any{"percent": int64(40)}},
		{"dim the lights to forty-two percent", "dim", map[string]any{"percent": int64(42)}},
		{"remind me to not forget the Milk, please", "remind", map[string]any{"task": "not forget the Milk, please"}},
		{"who are you?", "hello", map[string]any{}},
		// fuzzy
		{"um go to the kitchen please", "go_to", map[string]any{"place": "kitchen"}},
		{"could you please go to the kitchen", "go_to", map[string]any{"place": "kitchen"}},
		{"go kitchen", "go_to", map[string]any{"place": "kitchen"}},
		{"go to the kitchin", "go_to", map[string]any{"place": "kitchen"}},
		{"go two the kitchen", "go_to", map[string]any{"place": "kitchen"}},
		{"tern left ninety degrees", "turn", map[string]any{"side": "left", "angle": int64(90)}},
		{"turn write ninety degrees", "turn", map[string]any{"side": "right", "angle": int64(90)}},
		{"set timer five minutes", "timer", map[string]any{"minutes": int64(5)}},
	} {
		got, ok := m.Match(c.say)
		if !ok || got.Intent != c.intent || !reflect.DeepEqual(got.Slots, c.slots) {
			t.Errorf("%q: got %v %s %v, want %s %v", c.say, ok, got.Intent, got.Slots, c.intent, c.slots)
		}
	}
}

func TestDeclines(t *testing.T) {
	m := robot(t)
	for _, say := range strings.Split(strings.TrimSpace(nothing), "\n") {
		if got, ok := m.Match(say); ok {
			t.Errorf("%q became %s %v", say, got.Intent, got.Slots)
		}
	}
}

// What must not do anything.
const nothing = `
do not go to the kitchen
don't go to the kitchen
dont go to the kitchen
please don't go to the kitchen
never go to the kitchen
do not turn left ninety degrees
don't turn on the lights
you must not turn off the lights
no go to the kitchen
go to the kitchen not
not turn left 90 degrees
don't you dare go to the kitchen
did you go to the kitchen
why did you go to the kitchen
when do you go to the kitchen
what is the capital of France
how do I turn left ninety degrees
is the light on in the hall
are the lights on
if the door opens go to the kitchen
I go to the kitchen
he turned left ninety degrees
she told me to go to the kitchen
the robot turns left ninety degrees
the robot moved forward two meters
moved forward two meters
yesterday we drove to the kitchen
go to the moon
go to the kitchen tomorrow
pretend to go to the kitchen
stop going to the kitchen
turn left three hundred and sixty one degrees
turn left zero degrees
turn left nineteen ninety degrees
turn the light
turn lights
turn left
kitchen
kitchin
left
nice weather today
tell me a joke
thank you
thanks robot
I love you
the kitchen is nice
we ate in the living room
turn over a new leaf
go ahead
take me out to the ball game
remind me
lights out
turn left right ninety degrees
drive forward
drive forward 11 meters
drive forward 0.7 meters

...
?
`

// Short commands are the easiest to take for something else.
func TestShortCommands(t *testing.T) {
	m := compile(t, Options{Lists: map[string]List{"side": Words("left", "right")}},
		Intent{Tool: "turn", Sentences: []string{"turn {side}", "turn around"}},
		Intent{Tool: "drive", Sentences: []string{"(go|move|drive) (forward|back)[s]", "back up", "come here", "come to me"}},
		Intent{Tool: "follow", Sentences: []string{"follow me"}},
		Intent{Tool: "patrol", Sentences: []string{"(start|begin) [the] patrol", "patrol [the house]"}},
		Intent{Tool: "grip", Sentences: []string{"open [the] gripper", "close [the] gripper", "(pick|lift) up [the] cup", "increase [the] speed"}},
		Intent{Tool: "door", Sentences: []string{"unlock [the] door", "attach [the] trailer", "go upstairs"}},
	)
	for _, say := range strings.Split("turn left|Turn right!|turn around please|go forward|come here|could you follow me|begin patrol|open the griper|pick up cup|robot, back up", "|") {
		if _, ok := m.Match(say); !ok {
			t.Errorf("%q is not understood", say)
		}
	}
	for _, say := range strings.Split("turned left|turns left|she turns left|I turned right|it is my turn|left turn ahead|return left|burn left|turn lift|"+
		"go back in time|let me go back to that|we go back a long way|moved back|moves back|he moves back|come on|here you go|here comes the sun|how come here|who will come here|"+
		"do not follow me|why do you follow me|follow the rules|are you going to follow me|if I fall follow me|someone will follow me|"+
		"start the patrol later|never start patrol|starts patrol|started the patrol|patrolled the house|patrols the house|paw patrol is on tv|"+
		"the gripper is open|is the gripper closed|closed the gripper|decrease the speed|lock the door|detach the trailer|go downstairs|lock door|"+
		"do not turn around|turn around not|not follow me|stop following me|stop come here|no come here|you never come here|don't back up|cannot go forward|"+
		"forward|back|me|up|the|please|hello|good morning|what time is it|tell me a joke|my back hurts|backup the files|I will be back|turn|go|move|come|follow|"+
		"should I turn left|may I go back|could it go forward|what if you turn left|before you turn left|turn left tomorrow|turn left or right|turn left instead of right", "|") {
		if got, ok := m.Match(say); ok {
			t.Errorf("%q became %s %v (%s)", say, got.Intent, got.Slots, got.Sentence)
		}
	}
}
