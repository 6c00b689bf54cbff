package fault

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// child is a process of ours.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr bytes.Buffer
	ended  chan struct{} // closed when it was waited for
	err    error
}

// spawn starts this binary in another role; user, if not 0, is who it runs as.
func spawn(role string, config any, user uint32) (*child, error) {
	bin, err := executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(bin), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), envChild+"="+role)
	if config != nil {
		text, err := json.Marshal(config)
		if err != nil {
			return nil, err
		}
		c.cmd.Env = append(c.cmd.Env, envConfig+"="+string(text))
	}
	if user != 0 { // the build's folder is closed to others
		open, err := os.MkdirTemp("", "edged-fault")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(open)
		text, err := os.ReadFile(bin)
		if err != nil {
			return nil, err
		}
		c.cmd.Path, c.cmd.Dir = filepath.Join(open, "fault.test"), "/"
		syscall.ForkLock.RLock() // a child that is forked meanwhile would keep it open, and what is being written can't be run
		err = errors.Join(os.WriteFile(c.cmd.Path, text, 0o755), os.Chmod(open, 0o755))
		syscall.ForkLock.RUnlock()
		if err != nil {
			return nil, err
		}
		c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	}
	c.cmd.Stderr = &c.stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c.stdout, c.cmd.Stdout = r, w
	err = c.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// kill ends it at once and waits.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// trace is the part of what it said on standard error that tells why it died.
func (c *child) trace() string {
	<-c.ended
	text := c.stderr.String()
	if len(text) > 1500 {
		text = text[:1500] + " …"
	}
	return fmt.Sprintf("%v\n%s", c.err, text)
}

// output collects the lines of a writer.
type output struct {
	mu    sync.Mutex // guards lines
	lines []string
	ready chan struct{} // closed at the first line "R"
	end   chan struct{} // closed at the end of the output
}

func (c *child) collect() *output {
	o := &output{ready: make(chan struct{}), end: make(chan struct{})}
	go func() {
		defer close(o.end)
		defer c.stdout.Close()
		in := bufio.NewReaderSize(c.stdout, 1<<16)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			o.mu.Lock()
			o.lines = append(o.lines, line)
			o.mu.Unlock()
			if line == tellReady+"\n" {
				close(o.ready)
			}
		}
	}()
	return o
}

// text gives all that was said.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "")
}

// told gives the lines that begin with a word.
func (o *output) told(word string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, l := range o.lines {
		if rest, ok := strings.CutPrefix(l, word+" "); ok || l == word+"\n" {
			out = append(out, strings.TrimSuffix(rest, "\n"))
		}
	}
	return out
}

// reader asks a reader process, and starts another when it has died or hangs.
type reader struct {
	user  uint32 // who it runs as, 0 = as the test
	c     *child
	in    *bufio.Reader
	limit time.Duration
}

// ask gives the answer, or what became of the process instead.
func (r *reader) ask(q question) (a answer, death string) {
	if r.c == nil {
		c, err := spawn("reader", nil, r.user)
		if err != nil {
			return a, err.Error()
		}
		r.c, r.in = c, bufio.NewReaderSize(c.stdout, 1<<16)
	}
	text, err := json.Marshal(q)
	if err != nil {
		return a, err.Error()
	}
	limit := r.limit
	if limit == 0 {
		limit = 20 * time.Second
	}
	c := r.c
	var hung atomic.Bool
	clock := time.AfterFunc(limit, func() {
		hung.Store(true)
		_ = c.cmd.Process.Signal(syscall.SIGQUIT)
	})
	var line []byte
	if _, err = r.c.stdin.Write(append(text, '\n')); err == nil {
		line, err = r.in.ReadBytes('\n')
	}
	clock.Stop()
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err == nil {
		return a, ""
	}
	select {
	case <-c.ended:
	case <-time.After(2 * time.Second):
		c.kill()
	}
	r.close()
	if hung.Load() {
		return a, fmt.Sprintf("hangs, killed after %v: %s", limit, c.trace())
	}
	return a, "died: " + c.trace()
}

func (r *reader) close() {
	if r.c == nil {
		return
	}
	r.c.stdin.Close()
	select {
	case <-r.c.ended:
	case <-time.After(5 * time.Second):
		r.c.kill()
	}
	r.c.stdout.Close()
	r.c = nil
}

// readers are several of them, shared by goroutines.
type readers chan *reader

func newReaders(t *testing.T, n int, limit time.Duration) readers {
	rs := make(readers, n)
	for range n {
		rs <- &reader{limit: limit}
	}
	t.Cleanup(func() {
		for range n {
			(<-rs).close()
		}
	})
	return rs
}

func (rs readers) ask(q question) (answer, string) {
	r := <-rs
	defer func() { rs <- r }()
	return r.ask(q)
}
