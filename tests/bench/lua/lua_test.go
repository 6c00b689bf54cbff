// Package lua times the same handler in gopher-lua, the peer of the script group.
package lua

import (
	"testing"

	lua "github.com/yuin/gopher-lua"
)

const source = `function on_event(e) if e.t > 30 then return "hot" end end`

// BenchmarkHandler calls on_event with a table of four fields built per event,
// as an embedding program must.
func BenchmarkHandlerLua(b *testing.B) {
	l := lua.NewState()
	defer l.Close()
	if err := l.DoString(source); err != nil {
		b.Fatal(err)
	}
	fn := l.GetGlobal("on_event")
	b.ReportAllocs()
	for b.Loop() {
		t := l.NewTable()
		t.RawSetString("t", lua.LNumber(31.5))
		t.RawSetString("topic", lua.LString("home/kitchen/temp"))
		t.RawSetString("ts", lua.LNumber(1700000000))
		t.RawSetString("unit", lua.LString("C"))
		if err := l.CallByParam(lua.P{Fn: fn, NRet: 1, Protect: true}, t); err != nil {
			b.Fatal(err)
		}
		if l.Get(-1) != lua.LString("hot") {
			b.Fatal("wrong result")
		}
		l.Pop(1)
	}
}
