package society_test

import (
	"strings"
	"testing"

	"edged/workflow/society"
)

// TestSeatsAreWhatRuns: the inspector shows the very prompt that the runtime
// sends.
func TestSeatsAreWhatRuns(t *testing.T) {
	c := newCast(t)
	s := society.New("x", society.Options{})
	s.Put("art", "OLD")
	e := must(s.Connect(c.agent("boss", review("accept", "")), c.agent("worker", draft("d")), &society.Delegation{Instructions: "be quick", Shared: society.Shared{Artifacts: []society.Artifact{{Name: "art"}}}}))
	seats, err := e.Seats("the task")
	if err != nil || len(seats) != 3 || len(c.asked) != 0 {
		t.Fatalf("got %+v, %v", seats, err)
	}
	run(t, e, "the task")
	for who, s := range map[string]society.Seat{"worker": seats[0], "boss": seats[1]} {
		if want := s.System + "\n" + s.Prompt + "\n"; c.prompts[who][0] != want || c.schemas[who][0] != s.Schema {
			t.Errorf("got  %s\nwant %s", c.prompts[who][0], want)
		}
	}
	if p := seats[2].Prompt; !strings.Contains(p, `Your last draft: "‹draft of worker›"`) || !strings.Contains(p, `Comments: "‹comments of boss›"`) {
		t.Errorf("got %s", p)
	}
	var table []string
	for _, v := range e.Sights() {
		if v.View != society.Nothing {
			table = append(table, v.Viewer+"<-"+v.Author+":"+v.Topic+"="+string(v.View))
		}
	}
	want := "boss<-:task=full boss<-worker:draft=summary boss<-worker:sealed=summary boss<-worker:comments=summary boss<-worker:log=summary " +
		"worker<-:task=full worker<-:criteria=full worker<-:artifact=full worker<-boss:comments=full"
	if got := strings.Join(table, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if lines, err := e.Simulate(1); err != nil || strings.Join(lines, "|") != "round 1: worker → boss|round 1: boss → worker" {
		t.Errorf("got %v, %v", lines, err)
	}
}
