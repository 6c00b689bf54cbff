package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"edged/agent"
	"edged/agent/llm/schema"
	"edged/bus/origin"
)

// The priorities of the hooks that come with edged.
const (
	PrioritySafety  = 100
	PriorityRepair  = 50
	PriorityObserve = 0
)

// SmallModelHooks are what every agent has if it isn't Bare: small models
// repeat calls, read results aloud, miss arguments and drown in long results.
func SmallModelHooks() []Hook {
	return []Hook{LoopDetector(), EchoedPayload(), SchemaRetry(), ToolErrorBudget(2), TruncateResults(2000)}
}

// LoopDetector answers the second call with the same arguments by a hint
// instead of running it, and ends the run as failed, "loop", at the third.
func LoopDetector() Hook {
	type seen struct {
		n    int
		last string
	}
	key := new(int)
	of := func(s *Step) map[string]*seen {
		return s.Turn.Value(key, func() any { return map[string]*seen{} }).(map[string]*seen)
	}
	id := func(c Call) string { return c.Name + string(c.Args) }
	return Hook{
		Name: "loop_detector", Priority: PriorityRepair,
		BeforeTool: func(_ context.Context, s *Step) error {
			m := of(s)
			was := m[id(s.Call)]
			if was == nil {
				m[id(s.Call)] = &seen{n: 1}
				return nil
			}
			if was.n++; was.n > 2 {
				return &End{Err: fmt.Errorf("%w: loop", agent.ErrFailed)}
			}
			hint := "You called " + s.Call.Name + " with these arguments before; it was not run again."
			if was.last != "" {
				hint += " It gave: " + was.last
			}
			s.Result, _ = schema.Encode(hint + " Answer now.")
			return nil
		},
		AfterTool: func(_ context.Context, s *Step) error {
			if was := of(s)[id(s.Call)]; was != nil && s.Ran {
				was.last = clip(resultText(s.Result, s.Err), 300)
				if s.Turn.Tainted() || s.Tool.Origin != "" {
					was.last = Quote(s.Call.Name, was.last)
				}
			}
			return nil
		},
	}
}

// EchoedPayload replaces an answer that is a tool's result read out, JSON and
// all, by the same in words.
func EchoedPayload() Hook {
	return Hook{
		Name: "echoed_payload", Priority: PriorityRepair,
		AfterModel: func(_ context.Context, s *Step) error {
			if len(s.Answer.Calls) > 0 || len(s.Turn.Receipts) == 0 || s.Request.Schema != nil {
				return nil
			}
			text := unfence(s.Answer.Text)
			if text == "" || !strings.ContainsRune(`{["`, rune(text[0])) {
				return nil
			}
			v, err := schema.Decode([]byte(text))
			if err != nil {
				return nil
			}
			said, err := schema.Encode(v)
			if err != nil {
				return nil
			}
			for _, r := range s.Turn.Receipts {
				if r.Result == nil {
					continue
				}
				if own, err := schema.Decode(r.Result); err == nil {
					if same, err := schema.Encode(own); err == nil && string(same) == string(said) {
						s.Answer.Text = inWords(text)
						return nil
					}
				}
			}
			return nil
		},
	}
}

// SchemaRetry tells the real parameters in prose after arguments of the wrong
// shape, once per tool and run.
func SchemaRetry() Hook {
	key := new(int)
	return Hook{
		Name: "schema_retry", Priority: PriorityRepair,
		AfterTool: func(_ context.Context, s *Step) error {
			var wrong *ArgsError
			if !errors.As(s.Err, &wrong) || wrong.Params == nil {
				return nil
			}
			told := s.Turn.Value(key, func() any { return map[string]bool{} }).(map[string]bool)
			if told[wrong.Tool] {
				return nil
			}
			told[wrong.Tool] = true
			s.Err = fmt.Errorf("%w. %s takes %s. Call it again like that", wrong, wrong.Tool, wrong.Params.Prose())
			return nil
		},
	}
}

// ToolErrorBudget tells the model to try something else after a tool failed n
// times in a run.
func ToolErrorBudget(n int) Hook {
	key := new(int)
	return Hook{
		Name: "tool_error_budget", Priority: PriorityRepair,
		AfterTool: func(_ context.Context, s *Step) error {
			if s.Err == nil || !s.Ran {
				return nil
			}
			failed := s.Turn.Value(key, func() any { return map[string]int{} }).(map[string]int)
			if failed[s.Call.Name]++; failed[s.Call.Name] >= n {
				s.Err = fmt.Errorf("%w. %s failed %d times: don't call it again, try another tool or say what is wrong", s.Err, s.Call.Name, n)
			}
			return nil
		},
	}
}

// TruncateResults cuts what a tool gives the model to about n bytes; receipts
// keep the whole.
func TruncateResults(n int) Hook {
	return Hook{
		Name: "truncate_results", Priority: PriorityRepair - 10,
		AfterTool: func(_ context.Context, s *Step) error {
			if text := resultText(s.Result, nil); s.Err == nil && len(text) > n {
				var err error
				s.Result, err = schema.Encode(clip(text, n) + fmt.Sprintf(" (cut; %d bytes in all)", len(text)))
				return err
			}
			return nil
		},
	}
}

// Compaction cuts the history of a request, the oldest turns first, until it
// has about n tokens. The system's text and this run are never cut, so a
// request may stay larger.
func Compaction(n int) Hook {
	return Hook{
		Name: "compaction", Priority: PriorityRepair,
		BeforeModel: func(_ context.Context, s *Step) error {
			list := s.Request.Messages
			first, own := 0, len(list)
			if len(list) > 0 && list[0].Role == System {
				first = 1
			}
			for own > first { // this run begins at the newest words of the user's own
				own--
				if list[own].Role == User && list[own].Origin == s.Turn.Task.Origin && strings.Contains(list[own].Text, s.Turn.Task.Text()) {
					break
				}
			}
			room := n - tokensOf(list[:first]) - tokensOf(list[own:])
			out := append([]Message(nil), list[:first]...)
			out = append(out, newest(list[first:own], room)...)
			s.Request.Messages = append(out, list[own:]...)
			return nil
		},
	}
}

// TokenBudget ends a run as failed, "token_budget", before a request that would
// take it beyond n tokens, asked and answered.
func TokenBudget(n int) Hook {
	return Hook{
		Name: "token_budget", Priority: PriorityRepair,
		BeforeModel: func(_ context.Context, s *Step) error {
			used := s.Turn.Usage.PromptTokens + s.Turn.Usage.OutputTokens
			if s.Turn.Hop > 0 && used+tokensOf(s.Request.Messages) > n {
				return &End{Err: fmt.Errorf("%w: token_budget", agent.ErrFailed)}
			}
			return nil
		},
	}
}

// MemoryInjection tells the model what recall gives, beside the user's words.
func MemoryInjection(recall func(ctx context.Context, t agent.Task) (string, error)) Hook {
	return Hook{
		Name: "memory_injection", Priority: PriorityRepair,
		OnRunStart: func(ctx context.Context, s *Step) error {
			text, err := recall(ctx, s.Task)
			if err == nil && text != "" {
				s.Turn.Notes = append(s.Turn.Notes, text)
			}
			return err
		},
	}
}

// An Episode is what is worth remembering of a run.
type Episode struct {
	Agent  string        `json:"agent"`
	Task   string        `json:"task"`
	Origin origin.Label  `json:"origin,omitempty"` // whose words were in its prompt
	Status agent.Status  `json:"status"`
	Reply  string        `json:"reply,omitempty"`
	Reason string        `json:"reason,omitempty"`
	Tools  []string      `json:"tools,omitempty"` // that really ran, in order
	Took   time.Duration `json:"took"`            // nanoseconds
}

// EpisodeLog gives every run to a function when it is over.
func EpisodeLog(write func(ctx context.Context, e Episode) error) Hook {
	return Hook{
		Name: "episode_log", Priority: PriorityObserve,
		OnRunEnd: func(ctx context.Context, s *Step) error {
			e := Episode{Agent: s.Turn.Agent, Task: s.Turn.Task.Text(), Origin: s.Turn.Origin(),
				Status: agent.StatusOf(s.Failure), Reply: s.Final.Reply, Took: time.Since(s.Turn.Started)}
			if s.Failure != nil {
				e.Reason = reasonOf(s.Failure)
			}
			for _, r := range s.Final.Receipts {
				e.Tools = append(e.Tools, r.Tool)
			}
			return write(ctx, e)
		},
	}
}

// Timings say where a run's time went.
type Timings struct{ Total, Model, Tools time.Duration }

// Timing gives the times of every run to a function when it is over. Tools
// that run side by side are counted from the first's start to the last's end.
func Timing(write func(ctx context.Context, name string, t Timings)) Hook {
	type clock struct {
		Timings
		model, tool time.Time
	}
	key := new(int)
	of := func(s *Step) *clock {
		return s.Turn.Value(key, func() any { return &clock{} }).(*clock)
	}
	return Hook{
		Name: "timing", Priority: PriorityObserve,
		BeforeModel: func(_ context.Context, s *Step) error { of(s).model = time.Now(); return nil },
		AfterModel: func(_ context.Context, s *Step) error {
			c := of(s)
			c.Model += time.Since(c.model)
			return nil
		},
		BeforeTool: func(_ context.Context, s *Step) error {
			if c := of(s); c.tool.IsZero() {
				c.tool = time.Now()
			}
			return nil
		},
		AfterTool: func(_ context.Context, s *Step) error {
			if c := of(s); !c.tool.IsZero() {
				c.Tools += time.Since(c.tool)
				c.tool = time.Time{}
			}
			return nil
		},
		OnRunEnd: func(ctx context.Context, s *Step) error {
			c := of(s)
			c.Total = time.Since(s.Turn.Started)
			write(ctx, s.Turn.Agent, c.Timings)
			return nil
		},
	}
}

// PlanMode asks before the listed tools run (all Write tools if none is
// listed). Without approval a tool isn't run and the model is told why.
func PlanMode(approve func(ctx context.Context, t Tool, args json.RawMessage) error, tools ...string) Hook {
	listed := map[string]bool{}
	for _, name := range tools {
		listed[name] = true
	}
	return Hook{
		Name: "plan_mode", Priority: PrioritySafety, Safety: true,
		BeforeTool: func(ctx context.Context, s *Step) error {
			if len(listed) > 0 && !listed[s.Tool.Name] || len(listed) == 0 && s.Tool.Effect != Write {
				return nil
			}
			if err := approve(ctx, s.Tool, s.Call.Args); err != nil {
				s.Err = fmt.Errorf("not approved: %w", err)
			}
			return ctx.Err()
		},
	}
}
