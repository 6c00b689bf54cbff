// Package lib is what scripts can say: the modules and builtins of a robot's
// folder, one file per module, and the behaviour that a loaded folder is.
//
// Its one rule: a script never touches the runtime but through a row of a
// table here. The row checks the arguments, asks whether the folder may do it,
// and is the manual; what it does is a call of one of the rooms below.
//
//	h := &lib.Host{Name: "guard", Bus: b, Board: board, Rig: rig, Log: log}
//	guard, err := lib.Load(ctx, h, folder, lib.Options{}) // runs the top level, moves nothing
//	if err != nil { … }                                   // file:line:col, the code, what to write instead
//	err = guard.Start(ctx)                                // handlers hear from here on
//	…
//	err = lib.Swap(ctx, guard, edited)                    // no event lost, none heard twice
//
// Whatever a script hands over (handlers, triggers, tasks, payloads) is frozen
// or copied, so handlers run in parallel without locks. Goroutines are those
// of bus, background and time.AfterFunc; none is started here.
package lib

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"go.starlark.net/starlark"

	"edged/agent/llm"
	"edged/agent/llm/memory"
	"edged/background"
	"edged/blackboard"
	"edged/bus"
	"edged/hw"
	"edged/hw/sim"
	"edged/starlark/script"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/society"
)

// A Host is the robot that scripts run on. Bus and Board are needed; what else
// is missing makes the builtins that want it fail with an error that says so.
// It must not be changed while a behaviour of it runs.
type Host struct {
	Name  string // the robot's name, robot.name
	Bus   *bus.Bus
	Board *blackboard.Board
	Rig   *hw.Rig
	World *sim.World   // what hw.sim reaches; nil without simulated devices
	Log   *slog.Logger // what scripts log; nil drops it
	Print io.Writer    // what scripts print; nil sends it to the log

	Env    func(name string) (string, bool)  // per-device values; nil knows none
	Secret func(name string) (string, error) // ErrNoSecret for what is none; nil knows none
	Data   *os.Root                          // the robot's own data folder, for store

	// Wall is the clock on the wall; time.Now if nil. It may be set at any time,
	// forward or back: only what a record says is compared with it.
	Wall func() time.Time

	Library fs.FS         // the files behind @edged//; nil is Library()
	Limits  script.Limits // of one call; zero fields are the defaults of package script

	// Runs keeps durable runs of workflows, and Live how their trees stand,
	// beyond a reload; nil is one of the behaviour's own.
	Runs *workflow.Runs
	Live *workflow.Live
	// Turns keeps the turns of interactions in societies, beyond a reload; nil
	// keeps them in memory.
	Turns *society.Log
	// Models gives the model of a server by its name, "ollama:qwen2.5:1.5b", or
	// "builtin". It is called when a model is first asked, maybe more than once;
	// whoever gives it puts a queue in front. The key is what the script gives
	// for the server; with "" it is the one that was given last, or the
	// settings'. Nil knows the embedded one only.
	Models        func(name, key string) (llm.Model, error)
	Memory        *memory.Memory           // what agents and scripts remember; nil remembers nothing
	Sessions      *Sessions                // conversations; nil ends them with the behaviour
	Audit         *llm.Audit               // has every call of a model; nil keeps none
	Trusted       func(origin string) bool // whose words are orders; nil is llm.Trusted
	TaintedWrites bool                     // words of others may lead to tools that act
	// Confirm asks a person whether a call may be made; nil error is yes, for
	// exactly these arguments. Its context ends when the answer would come too
	// late. Nil asks nobody, and such calls are refused.
	Confirm func(ctx context.Context, q Question) error
	// Ask puts a question to people and waits for the answer, which is one of
	// its options if it has any. It returns soon after its context ends. Nil, or
	// [graph.ErrLater]: nobody can be asked now, and a durable run waits.
	Ask func(ctx context.Context, q Ask) (answer string, err error)
	// MCP gives the tools of a Model Context Protocol server; nil knows none.
	MCP func(ctx context.Context, s ToolServer) ([]llm.Tool, error)

	// GaveUp is told when a behaviour's supervision tree gave up, and says
	// whether the rest of the robot goes on; nil lets it. Then what was in the
	// tree stays down after a restart too; else the restart is the cure.
	GaveUp func(*background.GaveUpError) (goesOn bool)
}

// row is one builtin: its table, and what it does for a behaviour.
type row struct {
	value.Func
	do func(b *Behaviour, c *value.Call) (starlark.Value, error)
}

// bind makes the rows builtins of one behaviour.
func (b *Behaviour) bind(rows []row) []value.Func {
	out := make([]value.Func, len(rows))
	for i, r := range rows {
		out[i] = r.Func
		out[i].Do = func(c *value.Call) (starlark.Value, error) { return r.do(b, c) }
	}
	return out
}
