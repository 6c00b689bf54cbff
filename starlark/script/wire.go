package script

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"edged/starlark/value"
)

// The wire between a runtime and its script host. A frame is a length of four
// bytes, a kind, and a body of the pieces below. Both ends bound what they
// read: the far end may be anything. Nothing in this file keeps state.

// maxFrame is the size of the largest frame.
const maxFrame = value.MaxBytes + 4<<20

// Kinds of frames. The first group goes to the host, the second comes from it.
const (
	frameHello   = iota + 1 // memory, limits, api
	frameLoad               // call, name, entries, limits
	frameCall               // call, function, limits, args
	frameCancel             // call
	frameReply              // request, value or error
	frameForget             // functions, dicts
	frameReady              // –
	frameLoaded             // call, hash, modules
	frameResult             // call, value or error
	frameRequest            // request, call, op, target, name, args
	framePrint              // call, place, text
	frameDrop               // objects
)

// Kinds of values.
const (
	wireNone = iota
	wireFalse
	wireTrue
	wireInt
	wireFloat
	wireString
	wireBytes
	wireList
	wireTuple
	wireSet
	wireDict
	wireDuration
	wireTime
	wireFunc   // a function of the host: id, name
	wireObject // an object of the runtime: id, snapshot
	wireAPI    // a builtin of the runtime, by name
	wireModule // a module of the runtime
	wireStruct // fields by name
	wireShared // a dict to write into, which lives in the host: id, what is in it at first
)

var errWire = errors.New("script: malformed message")

// encoder writes the pieces of a frame. The first error sticks.
type encoder struct {
	buf   []byte
	nodes int
	err   error
	// foreign writes a value that is not data, or reports what it is.
	foreign func(*encoder, starlark.Value) error
	sent    []uint64 // the objects in the frame
}

func newFrame(kind byte) *encoder {
	return &encoder{buf: []byte{0, 0, 0, 0, kind}, nodes: value.MaxNodes}
}

// frame returns the finished frame.
func (e *encoder) frame() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	n := len(e.buf) - 4
	if n > maxFrame {
		return nil, fmt.Errorf("more than %d bytes in one call", maxFrame)
	}
	binary.LittleEndian.PutUint32(e.buf, uint32(n))
	return e.buf, nil
}

func (e *encoder) byte(b byte)   { e.buf = append(e.buf, b) }
func (e *encoder) uint(n uint64) { e.buf = binary.AppendUvarint(e.buf, n) }
func (e *encoder) int(n int64)   { e.buf = binary.AppendVarint(e.buf, n) }
func (e *encoder) text(s string) {
	e.uint(uint64(len(s)))
	e.buf = append(e.buf, s...)
}

func (e *encoder) texts(list []string) {
	e.uint(uint64(len(list)))
	for _, s := range list {
		e.text(s)
	}
}

func (e *encoder) limits(l Limits) {
	e.int(int64(l.Time))
	e.uint(l.Steps)
	e.int(int64(l.Depth))
}

func (e *encoder) args(args starlark.Tuple, kwargs []starlark.Tuple) {
	e.value(args, 0)
	e.uint(uint64(len(kwargs)))
	for _, kv := range kwargs {
		e.text(string(kv[0].(starlark.String)))
		e.value(kv[1], 0)
	}
}

func (e *encoder) value(v starlark.Value, depth int) {
	if e.nodes--; e.nodes < 0 || len(e.buf) > maxFrame {
		e.fail(fmt.Errorf("value too large to send (limit %d values, %d bytes)", value.MaxNodes, maxFrame))
	}
	if depth > value.MaxDepth {
		e.fail(fmt.Errorf("value more than %d levels deep, or it contains itself", value.MaxDepth))
	}
	if e.err != nil {
		return
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		e.byte(wireNone)
	case starlark.Bool:
		if v {
			e.byte(wireTrue)
		} else {
			e.byte(wireFalse)
		}
	case starlark.Int:
		i, ok := v.Int64()
		if !ok {
			e.fail(errors.New("an integer of more than 64 bits cannot be sent"))
		}
		e.byte(wireInt)
		e.int(i)
	case starlark.Float:
		e.byte(wireFloat)
		e.buf = binary.LittleEndian.AppendUint64(e.buf, math.Float64bits(float64(v)))
	case starlark.String:
		e.byte(wireString)
		e.text(string(v))
	case starlark.Bytes:
		e.byte(wireBytes)
		e.text(string(v))
	case *starlark.List:
		e.sequence(wireList, v, depth)
	case starlark.Tuple:
		e.sequence(wireTuple, v, depth)
	case *starlark.Set:
		e.sequence(wireSet, v, depth)
	case *starlark.Dict:
		e.byte(wireDict)
		e.uint(uint64(v.Len()))
		for k, x := range v.Entries() {
			e.value(k, depth+1)
			e.value(x, depth+1)
		}
	case *starlarkstruct.Struct:
		e.byte(wireStruct)
		names := v.AttrNames()
		e.uint(uint64(len(names)))
		for _, name := range names {
			x, _ := v.Attr(name)
			e.text(name)
			e.value(x, depth+1)
		}
	case startime.Duration:
		e.byte(wireDuration)
		e.int(int64(v))
	case startime.Time:
		e.byte(wireTime)
		e.text(time.Time(v).Format(time.RFC3339Nano))
	default:
		if e.foreign == nil {
			e.fail(fmt.Errorf("a %s cannot be sent", v.Type()))
			return
		}
		if err := e.foreign(e, v); err != nil {
			e.fail(err)
		}
	}
}

func (e *encoder) sequence(kind byte, v starlark.Sequence, depth int) {
	e.byte(kind)
	e.uint(uint64(v.Len()))
	for x := range starlark.Elements(v) {
		e.value(x, depth+1)
		if e.err != nil {
			return
		}
	}
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// decoder reads the pieces of a frame. The first error sticks, and everything
// after it reads as zero.
type decoder struct {
	buf   []byte
	nodes int
	err   error
	// foreign reads a value of a kind that is not data.
	foreign func(d *decoder, kind byte, depth int) (starlark.Value, error)
}

// readFrame reads a whole frame and returns its kind and body.
func readFrame(r io.Reader) (byte, *decoder, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:4])
	if n < 1 || n > maxFrame {
		return 0, nil, errWire
	}
	// Grow as the bytes come: the length alone is not believed.
	body, err := io.ReadAll(io.LimitReader(r, int64(n)-1))
	if err == nil && len(body) != int(n)-1 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	return head[4], &decoder{buf: body, nodes: value.MaxNodes}, nil
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errWire
	}
	d.buf = nil
}

func (d *decoder) byte() byte {
	if len(d.buf) == 0 {
		d.fail()
		return 0
	}
	b := d.buf[0]
	d.buf = d.buf[1:]
	return b
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.buf)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// count reads a number of things that take at least one byte each.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.buf)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) text() string {
	n := d.count()
	s := string(d.buf[:n])
	d.buf = d.buf[n:]
	return s
}

func (d *decoder) texts() []string {
	list := make([]string, 0, min(d.count(), 1000))
	for n := cap(list); n > 0 && d.err == nil; n-- {
		list = append(list, d.text())
	}
	return list
}

func (d *decoder) limits() Limits {
	return Limits{Time: time.Duration(d.int()), Steps: d.uint(), Depth: int(d.int())}
}

func (d *decoder) args() (starlark.Tuple, []starlark.Tuple) {
	args, ok := d.value(0).(starlark.Tuple)
	if !ok {
		d.fail()
	}
	var kwargs []starlark.Tuple
	for n := d.count(); n > 0 && d.err == nil; n-- {
		kwargs = append(kwargs, starlark.Tuple{starlark.String(d.text()), d.value(0)})
	}
	return args, kwargs
}

func (d *decoder) value(depth int) starlark.Value {
	if d.nodes--; d.nodes < 0 || depth > value.MaxDepth+1 {
		d.fail()
	}
	if d.err != nil {
		return starlark.None
	}
	switch kind := d.byte(); kind {
	case wireNone:
		return starlark.None
	case wireFalse:
		return starlark.False
	case wireTrue:
		return starlark.True
	case wireInt:
		return starlark.MakeInt64(d.int())
	case wireFloat:
		if len(d.buf) < 8 {
			break
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(d.buf))
		d.buf = d.buf[8:]
		return starlark.Float(f)
	case wireString:
		return starlark.String(d.text())
	case wireBytes:
		return starlark.Bytes(d.text())
	case wireList:
		return starlark.NewList(d.elements(depth))
	case wireTuple:
		return starlark.Tuple(d.elements(depth))
	case wireSet:
		elems := d.elements(depth)
		s := starlark.NewSet(len(elems))
		for _, x := range elems {
			if s.Insert(x) != nil {
				d.fail()
			}
		}
		return s
	case wireDict:
		n := d.count()
		dict := starlark.NewDict(min(n, 1000))
		for ; n > 0 && d.err == nil; n-- {
			k := d.value(depth + 1)
			if dict.SetKey(k, d.value(depth+1)) != nil {
				d.fail()
			}
		}
		return dict
	case wireStruct:
		fields := starlark.StringDict{}
		for n := d.count(); n > 0 && d.err == nil; n-- {
			name := d.text()
			fields[name] = d.value(depth + 1)
		}
		return starlarkstruct.FromStringDict(starlarkstruct.Default, fields)
	case wireDuration:
		return startime.Duration(d.int())
	case wireTime:
		t, err := time.Parse(time.RFC3339Nano, d.text())
		if err != nil {
			break
		}
		return startime.Time(t)
	default:
		if d.foreign == nil || d.err != nil {
			break
		}
		v, err := d.foreign(d, kind, depth)
		if err != nil {
			d.err = err
			return starlark.None
		}
		return v
	}
	d.fail()
	return starlark.None
}

func (d *decoder) elements(depth int) []starlark.Value {
	n := d.count()
	elems := make([]starlark.Value, 0, min(n, 1000))
	for ; n > 0 && d.err == nil; n-- {
		elems = append(elems, d.value(depth+1))
	}
	return elems
}
