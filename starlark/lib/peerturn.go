package lib

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edged/agent"
	"edged/background"
	"edged/workflow/society"
)

// An agent that is served takes turns of other robots' societies as it takes
// those of its own: <topic> brings {"kind": "cfp" or "request", "id", "turn",
// "task", "form", …}, and <topic>/reply takes what the agent says. What comes
// in after that, an award or how it ended, is for scripts to hear.

// errGivenUp ends a turn for which nobody waits any more.
var errGivenUp = errors.New("nobody waits for it any more")

// isNews says whether a message of a kind asks for nothing.
func isNews(kind string) bool {
	switch kind {
	case society.KindAccept, society.KindReject, society.KindResult, society.KindPropose, society.KindInform,
		society.KindRefuse, society.KindFailure, society.KindNotUnderstood:
		return true
	}
	return false
}

// clockError is how much the clocks of two robots may differ.
const clockError = time.Minute

// ageOf is how long ago a call was made, which a broker may have kept while the
// robot was off; 0 if it doesn't say.
func ageOf(m map[string]any) time.Duration {
	text, _ := m["sent"].(string)
	sent, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return time.Since(sent)
}

// withinOf is how long whoever made a call waits; 0 if it doesn't say.
func withinOf(m map[string]any) time.Duration {
	ms, _ := m["within_ms"].(int64)
	if ms <= 0 || ms > int64(longest/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// longest is the longest wait that is believed.
const longest = 30 * 24 * time.Hour

// takeTurn answers a call, unless whoever made it has given up by then.
func (s *server) takeTurn(ctx context.Context, id string, m map[string]any, t agent.Task) {
	defer s.done(id)
	if age := ageOf(m); withinOf(m) > 0 && age > withinOf(m)+clockError {
		s.say(ctx, map[string]any{"kind": society.KindRefuse, "id": id, "from": s.a.Name(),
			"reason": fmt.Sprintf("it was asked %v ago by my clock", age.Round(time.Second))})
		return
	}
	if d := withinOf(m); d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, errGivenUp)
		defer cancel()
	}
	ctx, over := s.b.turn(ctx)
	defer over()
	reply := map[string]any{"kind": society.KindFailure, "id": id, "from": s.a.Name(), "reason": "it broke off"}
	taker := agent.Func(s.a.Name(), func(ctx context.Context, t agent.Task) (agent.Result, error) {
		reply = s.member.Answer(ctx, society.Call{Message: m, Origin: t.Origin, Foreign: !t.Origin.Trusted(s.trusts)})
		reason, _ := reply["reason"].(string)
		switch reply["kind"] {
		case society.KindRefuse:
			return agent.Result{}, agent.Declined(reason)
		case society.KindFailure, society.KindNotUnderstood:
			if err := ctx.Err(); err != nil {
				return agent.Result{}, err
			}
			return agent.Result{}, fmt.Errorf("%w: %s", agent.ErrFailed, reason)
		}
		return agent.Result{Reply: agent.Task{Input: reply["answer"]}.Text(), Output: reply["answer"]}, nil
	})
	_, _ = background.Perform(ctx, s.b.host.Bus, taker, t) // the reply says it
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errGivenUp):
		return
	case errors.Is(cause, errRobotStopped):
		reply = map[string]any{"kind": society.KindFailure, "id": id, "from": s.a.Name(), "reason": errRobotStopped.Error()}
	}
	s.say(context.WithoutCancel(ctx), reply)
}

func (s *server) say(ctx context.Context, m map[string]any) {
	s.b.tell(ctx, "agent:"+s.a.Name(), s.topic+"/reply", m)
}

// trusts says whether somebody's words are orders for the agent.
func (s *server) trusts(who string) bool {
	if m, ok := s.a.(*modelAgent); ok {
		return m.o.Trusted(who)
	}
	return s.b.trusted(who)
}
