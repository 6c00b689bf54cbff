package script_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"

	"edged/starlark/script"
)

// watched is a host whose process can be looked at.
type watched struct {
	e    *script.Engine
	p    *script.RemoteProgram
	cmd  *exec.Cmd
	gone chan error
}

// watchHost starts a host of a text with so much memory.
func watchHost(t *testing.T, text string, memory uint64) *watched {
	t.Helper()
	w := &watched{gone: make(chan error, 1), e: script.New(script.Options{Limits: script.Limits{Time: 20 * time.Second, Steps: 50e6}})}
	ready := make(chan error, 2)
	command := hostCommand(t)
	i := w.e.Isolate(script.Isolation{
		Source:  script.Source{Name: "guard", FS: fstest.MapFS{"main.star": {Data: []byte(text)}}, Predeclared: attackNames()},
		Command: func() *exec.Cmd { w.cmd = command(); return w.cmd },
		Memory:  memory,
		Loaded:  func(p *script.RemoteProgram, err error) { w.p = p; ready <- err },
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.gone <- i.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case err := <-ready:
		if err != nil {
			t.Fatal(text, err)
		}
	case err := <-w.gone:
		t.Fatalf("the host ended before it loaded: %v", err)
	}
	w.p.Start()
	return w
}

// proc reads a line of /proc/PID/status, in KiB; 0 if the process is gone.
func (w *watched) proc(name string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return n
		}
	}
	return 0
}

// bombs want n bytes, most of them in one operation.
var bombs = map[string]string{
	"text":      `x = "a" * %d`,
	"bytes":     `x = b"a" * %d`,
	"list":      `x = [0] * (%d // 16)`,
	"tuple":     `x = (0,) * (%d // 16)`,
	"range":     `x = list(range(%d // 16))`,
	"join":      `x = ("a" * 1000000).join([""] * (%d // 1000000))`,
	"format":    `x = "%%s" * 40 %% tuple(["a" * (%d // 40)] * 40)`,
	"replace":   `x = ("a" * 100000).replace("a", "b" * (%d // 100000))`,
	"growing":   "x = []\n    for i in range(%d // 1000000):\n        x.append(str(i) + \"a\" * 1000000)",
	"dict":      `x = {i: i for i in range(%d // 80)}`,
	"big int":   `x = 1 << min(%d, 1 << 30)`,
	"json":      `x = json.encode(["a" * (%d // 4)] * 4)`,
	"text text": "x = \"a\"\n    while len(x) < %d:\n        x += x",
}

// TestMemoryFromOutside: whatever a script does at once or bit by bit, its
// process never has more memory of its own than the setting says and a little
// for itself.
func TestMemoryFromOutside(t *testing.T) {
	const own = 20 << 10 // KiB: what the empty process touches, and the runtime's books
	for _, c := range []struct{ memory, want uint64 }{{64 << 20, 64 << 20}, {64 << 20, 1e9}, {24 << 20, 36 << 20}} {
		for name, bomb := range bombs {
			memory, want := c.memory, c.want
			t.Run(fmt.Sprintf("%d/%s/%d", memory>>20, name, want), func(t *testing.T) {
				w := watchHost(t, fmt.Sprintf("def attack():\n    "+bomb+"\n    base.call(lambda: 0)\n    return len(x) if type(x) != \"int\" else 1\n", want), memory)
				before := w.proc("RssAnon")
				if before == 0 || before > own {
					t.Errorf("the empty process has %d KiB", before)
				}
				stop := make(chan struct{})
				most, looking := 0, sync.WaitGroup{}
				looking.Go(func() {
					for {
						most = max(most, w.proc("RssAnon"))
						select {
						case <-stop:
							return
						default:
						}
					}
				})
				_, err := w.e.Call(t.Context(), w.p.Function("attack"), nil, nil, script.Limits{})
				close(stop)
				looking.Wait()
				if limit := int(memory>>10) + own; most > limit {
					t.Errorf("it had %d KiB, may have %d (%v)", most, limit, err)
				}
				if want == 1e9 && err == nil && name != "big int" {
					t.Error("a gigabyte was given")
				}
				if testing.Verbose() {
					t.Logf("%d MiB at most: %.120v", most>>10, err)
				}
			})
		}
	}
}

// TestMemoryIsThere: what the setting gives can be used, again and again, and in
// one piece.
func TestMemoryIsThere(t *testing.T) {
	w := watchHost(t, "def big(n):\n    return len(\"a\" * n)\n", 64<<20)
	for range 20 {
		v, err := w.e.Call(t.Context(), w.p.Function("big"), starlark.Tuple{starlark.MakeInt(30 << 20)}, nil, script.Limits{})
		if err != nil || v.String() != "31457280" {
			t.Fatalf("got %v, %v; want 30 MiB of the 64", v, err)
		}
	}
}

// TestHostInheritsNothing: the process of a script has neither the robot's
// environment nor a file that was open in it, and can open none.
func TestHostInheritsNothing(t *testing.T) {
	t.Setenv("EDGED_TOKEN", "s3cret")
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil { // without O_CLOEXEC, as a shell hands it on
		t.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	w := watchHost(t, "def f(): return 1\n", 64<<20)
	at := fmt.Sprintf("/proc/%d/", w.cmd.Process.Pid)
	env, err := os.ReadFile(at + "environ")
	if err != nil {
		t.Fatal(err)
	}
	for kv := range strings.SplitSeq(strings.Trim(string(env), "\x00"), "\x00") {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "GOMAXPROCS", "GOTRACEBACK", "GODEBUG", "EDGED_TEST_SCRIPT_HOST":
		default:
			t.Errorf("it has %s", kv)
		}
	}
	files, err := os.ReadDir(at + "fd")
	if err != nil {
		t.Fatal(err)
	}
	pipes := 0
	for _, f := range files {
		to, err := os.Readlink(at + "fd/" + f.Name())
		switch {
		case err != nil:
			t.Error(err)
		case strings.HasPrefix(to, "pipe:"):
			pipes++
		case to != "anon_inode:[eventpoll]" && to != "anon_inode:[eventfd]":
			t.Errorf("it has %s open", to)
		}
	}
	if pipes != 3 {
		t.Errorf("it has %d pipes, want its standard ones", pipes)
	}
	if cwd, err := os.Readlink(at + "cwd"); err != nil || cwd != "/" {
		t.Errorf("it is in %s, %v", cwd, err)
	}
	limits, err := os.ReadFile(at + "limits")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Max open files            0 ", "Max file size             0 ", "Max core file size        0 "} {
		if !strings.Contains(string(limits), want) {
			t.Errorf("no %q in\n%s", want, limits)
		}
	}
}
