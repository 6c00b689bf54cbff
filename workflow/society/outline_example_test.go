package society_test

import (
	"context"
	"fmt"

	"edged/workflow/society"
)

// Who sees what and who speaks to whom is known before anybody is asked.
func ExampleSociety_Outline() {
	code := society.Func(func(context.Context, society.Prompt) (any, error) { return "a path", nil })
	s := society.New("home", society.Options{})
	_, err := s.Connect(&society.Agent{Name: "planner", Speaker: code}, &society.Agent{Name: "checker", Speaker: code},
		&society.Oversight{Shared: society.Shared{Name: "review", MaxRounds: 1}})
	if err != nil {
		fmt.Println(err)
		return
	}
	review := s.Outline(0).Edges[0]
	fmt.Println(review.Speakers[0])
	for _, seat := range review.Seats {
		fmt.Printf("%s, to %s: %s\n", seat.Agent, seat.Kind, seat.Schema)
	}
	fmt.Println("calls of models:", review.Calls)
	// Output:
	// round 1: planner → checker
	// planner, to work: {"type":"object","properties":{"draft":{"type":"string","maxLength":2000}},"required":["draft"],"additionalProperties":false}
	// checker, to review: {"type":"object","properties":{"comments":{"type":"string","maxLength":240},"verdict":{"type":"string","enum":["approve","reject","revise"]}},"required":["comments","verdict"],"additionalProperties":false}
	// calls of models: 0
}
