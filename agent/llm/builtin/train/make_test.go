package train

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"edged/agent/llm/builtin/engine"
)

// spawn runs the workers on goroutines, as cmd does.
func spawn(n int, f func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// TestMake trains the embedded model anew, if told where to put it:
//
//	EDGED_TRAIN=/tmp/robot.gguf go test -run TestMake -timeout 1h ./agent/llm/builtin/train
func TestMake(t *testing.T) {
	path := os.Getenv("EDGED_TRAIN")
	if path == "" {
		t.Skip("EDGED_TRAIN names no file to write")
	}
	o := Options{Workers: 2, Spawn: spawn}
	o.Steps, _ = strconv.Atoi(os.Getenv("EDGED_TRAIN_STEPS"))
	next := time.Duration(0)
	o.Progress = func(p Progress) {
		if p.Elapsed >= next || p.Step == p.Steps {
			next = p.Elapsed + 20*time.Second
			t.Logf("step %d of %d, loss %.4f, %v, %.0f tokens/s", p.Step, p.Steps, p.Loss, p.Elapsed.Round(time.Second), float64(p.Tokens)/p.Elapsed.Seconds())
		}
	}
	f, err := Train(t.Context(), Demo(), o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, engine.Q8); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
