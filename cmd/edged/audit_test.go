package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edged/agent/llm"
)

func appendCall(t *testing.T, dir, tool string) (aside string) {
	t.Helper()
	a, aside, err := openAudit(dir, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Append(llm.AuditEntry{Agent: "butler", Tool: tool, Ran: true}); err != nil {
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	return aside
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
	last, err := readAudit(path)
	if err != nil || last == nil || last.Seq != 3 || last.Tool != "three" {
		t.Errorf("last is %+v, %v; want the third", last, err)
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
	if last, err := readAudit(path); err != nil || last.Seq != 1 {
		t.Errorf("the new one begins with %+v, %v", last, err)
	}
}
