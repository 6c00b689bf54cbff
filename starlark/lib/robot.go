package lib

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

var errNoDevices = errors.New("no devices are configured")

var robotRows = []row{
	{value.Func{
		Name: "robot.stop", Doc: "Stops the robot: every goal is cancelled, every actuator goes to its safe state, and nothing moves before robot.resume. Every script may do that.",
		Example: "robot.stop(\"somebody is in the way\")",
		Params:  []value.Param{{Name: "reason", Type: value.String, Default: "", Positional: true, Doc: "Why."}},
		Blocks:  true,
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Rig == nil {
			return nil, errNoDevices
		}
		reason := c.String("reason")
		if reason == "" {
			reason = "robot.stop"
		}
		return nil, b.host.Rig.Stop(c.Context(), b.source(c), reason)
	}},
	{value.Func{
		Name: "robot.resume", Doc: "Lets the robot move again after a stop. It needs a grant of hw.write. Call it because of something a person does (a button), also after a stop that hardware caused.",
		Example: "if robot.stopped():\n    robot.resume()", Blocks: true,
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Rig == nil {
			return nil, errNoDevices
		}
		if err := acts(c); err != nil {
			return nil, err
		}
		if r := runOf(c.Context()); r != nil && r.reads {
			return nil, r.readsOnly("lets the robot move")
		}
		if len(b.grants.HWWrite) == 0 {
			if err := b.mayChange(c, "hw.write", "*"); err != nil {
				return nil, err
			}
		}
		if err := b.host.Rig.Resume(c.Context(), b.source(c)); err != nil {
			return nil, &value.Error{Msg: err.Error(), Hint: "a person resumes it: with 'edged resume' or on the page", Err: err}
		}
		return nil, nil
	}},
	{value.Func{
		Name: "robot.stopped", Doc: "Reports whether the robot is stopped.", Returns: "True or False",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if b.host.Rig == nil {
			return starlark.False, nil
		}
		_, stopped := b.host.Rig.Stopped()
		return starlark.Bool(stopped), nil
	}},
	{value.Func{
		Name: "robot.say", Doc: "Says something: the event voice/say, for whoever has a voice.",
		Example: "robot.say(\"I am in the kitchen\")",
		Params:  []value.Param{{Name: "text", Type: value.String, Required: true, Positional: true, Doc: "The words."}},
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) {
		if err := effect(c); err != nil {
			return nil, err
		}
		source, words := b.source(c), map[string]any{"text": c.String("text")}
		say := func(ctx context.Context) error {
			_, err := b.host.Bus.Publish(ctx, source, "voice/say", words)
			return err
		}
		if b.later(c, say) {
			return nil, nil
		}
		return nil, say(c.Context())
	}},
}

var logParams = []value.Param{{Name: "text", Required: true, Positional: true, Doc: "What to note."}}

func logRow(name, doc string, level slog.Level) row {
	return row{value.Func{
		Name: "log." + name, Doc: doc, Example: "log." + name + "(\"battery\", level = 0.2)", Params: logParams,
		Rest: "more", Named: "values",
	}, func(b *Behaviour, c *value.Call) (starlark.Value, error) { return b.note(c, level) }}
}

var logRows = []row{
	logRow("debug", "Notes something for who looks closely; further values go along by name.", slog.LevelDebug),
	logRow("info", "Notes something; further values go along by name.", slog.LevelInfo),
	logRow("warn", "Notes something that should not be; further values go along by name.", slog.LevelWarn),
	logRow("error", "Notes something that went wrong; further values go along by name.", slog.LevelError),
}

const (
	logNodes = 10_000
	logBytes = 16 << 10
)

func (b *Behaviour) note(c *value.Call, level slog.Level) (starlark.Value, error) {
	if !b.log.Enabled(c.Context(), level) {
		return nil, nil
	}
	text, err := plain(c.Value("text"))
	if err != nil {
		return nil, err
	}
	for _, v := range c.Rest() {
		more, err := plain(v)
		if err != nil {
			return nil, err
		}
		text += " " + more
	}
	at := where(c)
	attrs := []any{"at", fmt.Sprintf("%s:%d", at.File, at.Line)}
	if r := runOf(c.Context()); r != nil && r.agent() != "" {
		attrs = append(attrs, "agent", r.agent())
	}
	for _, kv := range c.Named() {
		v, err := plain(kv[1])
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, string(kv[0].(starlark.String)), v)
	}
	b.log.Log(c.Context(), level, text, attrs...)
	return nil, nil
}

// plain is a value as text, of bounded size.
func plain(v starlark.Value) (string, error) {
	if s, ok := starlark.AsString(v); ok {
		if len(s) > logBytes {
			s = s[:logBytes] + "…"
		}
		return s, nil
	}
	if err := value.Measure(v, logNodes, logBytes); err != nil {
		return "", err
	}
	return v.String(), nil
}
