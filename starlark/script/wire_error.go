package script

import (
	"context"
	"errors"
	"time"

	"edged/starlark/value"
)

// Errors cross the wire with their parts, so that the far side can point at
// the argument or tell a limit from a fault.

const (
	wireNoError = iota
	wirePlainError
	wireArgError
	wireScriptError
	wireScriptErrors
)

func (e *encoder) error(err error) {
	var list Errors
	var se *Error
	var ve *value.Error
	switch {
	case err == nil:
		e.byte(wireNoError)
	case errors.As(err, &list):
		e.byte(wireScriptErrors)
		list = list[:min(len(list), 100)]
		e.uint(uint64(len(list)))
		for _, se := range list {
			e.scriptError(se)
		}
	case errors.As(err, &se):
		e.byte(wireScriptError)
		e.scriptError(se)
	case errors.As(err, &ve):
		e.byte(wireArgError)
		e.text(ve.Func)
		e.text(ve.Arg)
		e.uint(uint64(ve.Pos))
		e.text(clip(ve.Msg))
		e.text(clip(ve.Hint))
	default:
		e.byte(wirePlainError)
		e.text(clip(err.Error()))
	}
}

func (e *encoder) scriptError(se *Error) {
	e.position(se.Position)
	e.text(clip(se.Code))
	e.text(clip(se.Msg))
	e.text(clip(se.Hint))
	frames := se.Frames
	if len(frames) > 50 {
		frames = append(append([]Frame{}, frames[:25]...), frames[len(frames)-25:]...)
	}
	e.uint(uint64(len(frames)))
	for _, f := range frames {
		e.text(f.Name)
		e.position(f.Position)
	}
	var le *LimitError
	if errors.As(se.Err, &le) {
		e.text(le.Limit)
		e.uint(le.Steps)
		e.int(int64(le.Time))
		e.int(int64(le.Depth))
		e.uint(le.Heap)
	} else {
		e.text("")
	}
}

func (e *encoder) position(p Position) {
	e.text(p.File)
	e.int(int64(p.Line))
	e.int(int64(p.Col))
}

// error reads an error; nil if there was none. What is malformed is an error
// too.
func (d *decoder) error() error {
	var err error
	switch kind := d.byte(); kind {
	case wireNoError:
	case wirePlainError:
		err = errors.New(d.text())
	case wireArgError:
		err = &value.Error{Func: d.text(), Arg: d.text(), Pos: int(d.uint() & 0xffff), Msg: d.text(), Hint: d.text()}
	case wireScriptError:
		err = d.scriptError()
	case wireScriptErrors:
		var list Errors
		for n := d.count(); n > 0 && d.err == nil; n-- {
			list = append(list, d.scriptError())
		}
		if len(list) == 0 {
			d.fail()
		} else {
			err = list
		}
	default:
		d.fail()
	}
	if d.err != nil {
		return d.err
	}
	return err
}

func (d *decoder) scriptError() *Error {
	se := &Error{Position: d.position(), Code: d.text(), Msg: d.text(), Hint: d.text()}
	for n := d.count(); n > 0 && d.err == nil; n-- {
		se.Frames = append(se.Frames, Frame{d.text(), d.position()})
	}
	if limit := d.text(); limit != "" {
		le := &LimitError{Limit: limit, Steps: d.uint(), Time: time.Duration(d.int()), Depth: int(d.int()), Heap: d.uint()}
		if limit == "cancelled" {
			le.cause = context.Canceled
		}
		se.Err = le
	}
	return se
}

func (d *decoder) position() Position {
	return Position{File: d.text(), Line: int(d.int()), Col: int(d.int())}
}

// clip bounds a message that a script may have made.
func clip(s string) string {
	const most = 4096
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
