package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/mcp"
)

// A program that speaks the Model Context Protocol starts edged mcp and uses
// the robot that runs.
func TestMCP(t *testing.T) {
	t.Setenv("OLLAMA_HOST", "127.0.0.1:1") // nobody
	dir := filepath.Join(t.TempDir(), "robot")
	r := start(t, dir, "demo", "--dir", dir)
	r.until("start", 10*time.Second, func() bool { return strings.Contains(r.out.String(), "\nedit ") })
	r.must("ask", "turn left 1 degree") // and the patrol of the start is given up
	for _, act := range []bool{false, true} {
		command := "stdio:" + r.bin + " --socket " + r.socket + " mcp"
		if act {
			command += " --act"
		}
		c, err := mcp.New(command, mcp.Options{Env: []string{"OLLAMA_HOST=127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := c.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		call := func(name string, args string) (string, error) {
			i := slices.IndexFunc(tools, func(t llm.Tool) bool { return t.Name == name })
			if i < 0 {
				t.Fatalf("no tool %s", name)
			}
			out, err := tools[i].Do(t.Context(), json.RawMessage(args))
			return string(out), err
		}
		if out, err := call("read_sensor", `{"name": "battery"}`); err != nil || !strings.Contains(out, "percent") {
			t.Errorf("battery: %q, %v", out, err)
		}
		if _, err := call("read_sensor", `{"name": "batery"}`); err == nil || !strings.Contains(err.Error(), "battery") {
			t.Errorf("a wrong argument: %v, want those there are", err)
		}
		_, err = call("turn", `{"direction": "left", "degrees": 20}`)
		if act != (err == nil) {
			t.Errorf("turn with act %v: %v", act, err)
		}
		if _, err := call("ask_helper", `{"task": "turn left ninety degrees"}`); err == nil {
			t.Error("words of another program moved the robot")
		}
		if act {
			if out, err := call("ask_helper", `{"task": "stop!"}`); err != nil || !strings.Contains(out, "stopped in") {
				t.Errorf("stop: %q, %v", out, err)
			}
			if _, err = call("turn", `{"direction": "left", "degrees": 20}`); err == nil || !strings.Contains(err.Error(), "stopped") {
				t.Errorf("a stopped robot turns: %v", err)
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if out := r.must("doctor", "--no-models"); !strings.Contains(out, "audit: ") {
		t.Errorf("no audit of what other programs did:\n%s", out)
	}
}
