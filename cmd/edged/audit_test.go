package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
	"edged/blackboard"
	"edged/bus"
)

func appendCall(t *testing.T, dir, tool string) (trouble string) {
	t.Helper()
	return appendTo(t, dir, ends{}, tool)
}

func appendTo(t *testing.T, dir string, kept ends, tool string) (trouble string) {
	t.Helper()
	a, err := openAudit(dir, kept, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if tool != "" {
		err = a.Append(llm.AuditEntry{Agent: "butler", Tool: tool, Ran: true})
	}
	if err := errors.Join(err, a.close()); err != nil {
		t.Fatal(err)
	}
	return a.state().Trouble
}

// read gives the entries of the audit, as tools.
func readTools(t *testing.T, dir string) (tools []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, auditFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := llm.VerifyAudit(f, func(e llm.AuditEntry) { tools = append(tools, e.Tool) }); err != nil {
		t.Fatal(err)
	}
	return tools
}

// The chain goes on from process to process, and over a power cut.
func TestAuditGoesOn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, auditFile)
	appendCall(t, dir, "one")
	appendCall(t, dir, "two")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":3,"to`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if aside := appendCall(t, dir, "three"); aside != "" {
		t.Errorf("after a power cut: %s", aside)
	}
	if got := readTools(t, dir); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("it has %q", got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want it readable by its owner only", st.Mode(), err)
	}
}

// A file that somebody changed is kept, under another name.
func TestAuditThatWasChanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, auditFile)
	appendCall(t, dir, "open_door")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(b), "open_door", "wave_hand", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	aside := appendCall(t, dir, "two")
	if !strings.Contains(aside, "line 1 was changed") || !strings.Contains(aside, "audit-20260102T030405Z.jsonl") {
		t.Errorf("it says %q", aside)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "audit-20260102T030405Z.jsonl")); err != nil || !strings.Contains(string(kept), "wave_hand") {
		t.Errorf("kept is %q, %v", kept, err)
	}
	if got := readTools(t, dir); !slices.Equal(got, []string{"audit", "two"}) {
		t.Errorf("the new one has %q; want what was found, and the second", got)
	}
}

// Lines that are cut off at the end leave a chain that is whole; the board
// knows how long it was.
func TestAuditThatWasCut(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(t *testing.T, path string, lines [][]byte) []byte
		want string // "": nothing is wrong
	}{
		{"whole", func(_ *testing.T, _ string, l [][]byte) []byte { return bytes.Join(l, nil) }, ""},
		{"a line more, of a process that was killed", func(t *testing.T, path string, l [][]byte) []byte {
			other := t.TempDir()
			if err := os.WriteFile(filepath.Join(other, auditFile), bytes.Join(l, nil), 0o600); err != nil {
				t.Fatal(err)
			}
			appendCall(t, other, "four")
			b, err := os.ReadFile(filepath.Join(other, auditFile))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, ""},
		{"the last line", func(_ *testing.T, _ string, l [][]byte) []byte { return bytes.Join(l[:2], nil) }, "lines 3 to 3 are missing"},
		{"the last two", func(_ *testing.T, _ string, l [][]byte) []byte { return l[0] }, "lines 2 to 3 are missing"},
		{"all", func(*testing.T, string, [][]byte) []byte { return []byte{} }, "all 3 lines that were written are missing"},
		{"the file", func(t *testing.T, path string, _ [][]byte) []byte { return nil }, "all 3 lines that were written are missing"},
		{"another file", func(t *testing.T, _ string, _ [][]byte) []byte {
			other := t.TempDir()
			for range 5 {
				appendCall(t, other, "wave_hand")
			}
			b, err := os.ReadFile(filepath.Join(other, auditFile))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, "it is another file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, auditFile)
			b := bus.New(bus.Options{})
			defer b.Close(t.Context())
			board, err := blackboard.Open(b, blackboard.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer board.Close()
			kept := ends{board.Records("audit")}
			for _, tool := range []string{"one", "two", "three"} {
				if trouble := appendTo(t, dir, kept, tool); trouble != "" {
					t.Fatal(trouble)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if text = c.cut(t, path, bytes.SplitAfter(text, []byte("\n"))); text == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			trouble := appendTo(t, dir, kept, "")
			if (trouble == "") != (c.want == "") || !strings.Contains(trouble, c.want) {
				t.Errorf("it says %q, want %q", trouble, c.want)
			}
			if again := appendTo(t, dir, kept, ""); again != "" {
				t.Errorf("the start after says %q", again)
			}
			if got := readTools(t, dir); c.want != "" && !slices.Equal(got, []string{"audit"}) {
				t.Errorf("the new one has %q, want what was found", got)
			}
		})
	}
}

// A deed that the end of the process interrupted is closed by the next one.
func TestAuditOfAnInterruptedCall(t *testing.T) {
	dir := t.TempDir()
	a, err := openAudit(dir, ends{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	one, err := a.Begin(llm.AuditEntry{Agent: "butler", Tool: "drive"}, llm.Write)
	if err == nil {
		_, err = a.Begin(llm.AuditEntry{Agent: "butler", Tool: "grip"}, llm.Write)
	}
	if err == nil {
		err = a.Append(llm.AuditEntry{Agent: "butler", Tool: "drive", Of: one, Ran: true})
	}
	if err := errors.Join(err, a.close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if trouble := appendCall(t, dir, ""); trouble != "" {
			t.Error(trouble)
		}
		f, err := os.Open(filepath.Join(dir, auditFile))
		if err != nil {
			t.Fatal(err)
		}
		last, err := llm.VerifyAudit(f, nil)
		f.Close()
		if err != nil || last.Seq != 4 || last.Tool != "grip" || last.Of != 2 || !strings.Contains(last.Error, "the robot ended") {
			t.Errorf("last is %+v, %v", last, err)
		}
	}
}

// A line that finds no room on the disk leaves no half of it behind.
func TestAuditOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	appendCall(t, dir, "one")
	a, err := openAudit(dir, ends{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good := a.sink.file
	a.sink.file = full
	if err := a.Append(llm.AuditEntry{Tool: "two"}); err == nil {
		t.Error("a line is written on a full disk")
	}
	a.sink.file = good
	if err := errors.Join(a.Append(llm.AuditEntry{Tool: "three"}), a.close()); err != nil {
		t.Fatal(err)
	}
	if got := readTools(t, dir); !slices.Equal(got, []string{"one", "three"}) {
		t.Errorf("it has %q", got)
	}
}
