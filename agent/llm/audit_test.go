package llm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"edged/agent/llm"
)

// disk is a file that counts how often it is brought to the disk.
type disk struct {
	bytes.Buffer
	syncs int
	fails error // of the next write
	stuck error // of the next sync
}

func (d *disk) Write(b []byte) (int, error) {
	if d.fails != nil {
		return 0, d.fails
	}
	return d.Buffer.Write(b)
}

func (d *disk) Sync() error {
	d.syncs++
	return d.stuck
}

// Only what acts waits for the disk.
func TestAuditSyncs(t *testing.T) {
	var d disk
	a := llm.NewAudit(&d, nil)
	for i, c := range []struct {
		effect llm.Effect
		syncs  int
	}{{llm.Read, 0}, {llm.Write, 1}, {llm.Read, 1}, {llm.Write, 2}} {
		if seq, err := a.Begin(llm.AuditEntry{Tool: "x"}, c.effect); err != nil || seq != uint64(2*i+1) || d.syncs != c.syncs {
			t.Errorf("%d: got %d, %v and %d syncs, want %d", i, seq, err, d.syncs, c.syncs)
		}
		if err := a.Append(llm.AuditEntry{Tool: "x"}); err != nil || d.syncs != c.syncs {
			t.Errorf("%d: an outcome: %v, %d syncs", i, err, d.syncs)
		}
	}
	if seq, err := llm.NewAudit(&strings.Builder{}, nil).Begin(llm.AuditEntry{}, llm.Write); seq != 1 || err != nil {
		t.Errorf("what has no disk: %d, %v", seq, err)
	}
	var none *llm.Audit
	if seq, err := none.Begin(llm.AuditEntry{}, llm.Write); seq != 0 || err != nil {
		t.Errorf("no audit: %d, %v", seq, err)
	}
}

// What can't be written is told, has no number, and breaks no chain.
func TestAuditFails(t *testing.T) {
	full := errors.New("disk full")
	var d disk
	a := llm.NewAudit(&d, nil)
	fails := func(what string, want error) {
		t.Helper()
		if seq, err := a.Begin(llm.AuditEntry{}, llm.Write); seq != 0 || !errors.Is(err, want) {
			t.Errorf("%s: got %d, %v", what, seq, err)
		}
	}
	d.fails = full
	fails("no room", full)
	if err := a.Append(llm.AuditEntry{}); !errors.Is(err, full) {
		t.Errorf("an outcome without room: %v", err)
	}
	d.fails, d.stuck = nil, full
	fails("no disk", full)
	d.stuck = nil
	if seq, err := a.Begin(llm.AuditEntry{Result: json.RawMessage("{")}, llm.Write); seq != 0 || err == nil {
		t.Errorf("what is no JSON: %d, %v", seq, err)
	}
	if err := a.Append(llm.AuditEntry{Tool: "x", Error: strings.Repeat("e", 401), Result: json.RawMessage("1")}); err != nil {
		t.Error(err)
	}
	if err := a.Append(llm.AuditEntry{Tool: "x", Result: json.RawMessage(`"` + strings.Repeat("r", 5<<20) + `"`)}); err != nil {
		t.Error(err)
	}
	var all []llm.AuditEntry
	last, err := llm.VerifyAudit(&d, func(e llm.AuditEntry) { all = append(all, e) })
	if err != nil || len(all) != 3 || last.Seq != 3 || len(last.Result) != 5<<20+2 {
		t.Fatalf("got %d entries, %v", len(all), err)
	}
	if e := all[1]; e.Error != strings.Repeat("e", 400)+"…" || e.Result != nil {
		t.Errorf("got error %q and result %s", e.Error, e.Result)
	}
}

// An audit that is written anew by somebody who knows how is still one chain.
func TestAuditForged(t *testing.T) {
	line := func(e llm.AuditEntry) string {
		e.Hash = ""
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		e.Hash = hex.EncodeToString(sum[:])
		b, _ = json.Marshal(e)
		return string(b) + "\n"
	}
	first := line(llm.AuditEntry{Seq: 1})
	var one llm.AuditEntry
	if err := json.Unmarshal([]byte(first), &one); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text, want string
		last             bool // the first line is good
	}{
		{"good", first + line(llm.AuditEntry{Seq: 2, Prev: one.Hash}), "", true},
		{"without its last line feed", strings.TrimSpace(first), "", true},
		{"another number", first + line(llm.AuditEntry{Seq: 3, Prev: one.Hash}), "missing before line 2", true},
		{"after another line", first + line(llm.AuditEntry{Seq: 2, Prev: "x"}), "missing before line 2", true},
		{"a later first", line(llm.AuditEntry{Seq: 2}), "missing before line 1", false},
		{"half a line", first + `{"seq":2`, "line 2: unexpected end", true},
		{"an empty line", "\n" + first, "line 1: unexpected end", false},
		{"no hash", `{"seq":1,"prev":""}`, "line 1 was changed", false},
	} {
		last, err := llm.VerifyAudit(strings.NewReader(c.text), nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || (last != nil) != c.last {
			t.Errorf("%s: got %+v, %v", c.name, last, err)
		}
	}
	broken := errors.New("broken")
	if last, err := llm.VerifyAudit(io.MultiReader(strings.NewReader(first), iotest.ErrReader(broken)), nil); !errors.Is(err, broken) || last == nil || last.Seq != 1 {
		t.Errorf("got %+v, %v", last, err)
	}
}
