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
	if err != nil || len(seats) != 2 || len(c.asked) != 0 {
		t.Fatalf("got %+v, %v", seats, err)
	}
	run(t, e, "the task")
	if want := seats[1].System + "\n" + seats[1].Prompt + "\n"; c.prompts["worker"][0] != want || c.schemas["worker"][0] != seats[1].Schema {
		t.Errorf("got  %s\nwant %s", c.prompts["worker"][0], want)
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
