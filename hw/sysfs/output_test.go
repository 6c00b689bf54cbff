package sysfs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"edged/hw/sysfs"
)

func TestOutputWritesAndRests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "brightness")
	if err := os.WriteFile(file, []byte("255"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := sysfs.Output{Called: "led", File: file, Max: 255}
	read := func() string { b, _ := os.ReadFile(file); return string(b) }
	if err := o.Do(t.Context(), json.RawMessage(`{"value": 12.6}`)); err != nil || read() != "13" {
		t.Errorf("got %q (%v), want 13", read(), err)
	}
	for _, bad := range []string{`{}`, `{"value": "x"}`, `[]`} {
		if err := o.Do(t.Context(), json.RawMessage(bad)); err == nil || read() != "13" {
			t.Errorf("%s: %v, file %q; want an error and 13", bad, err, read())
		}
	}
	if err := o.Rest(t.Context()); err != nil || read() != "0" {
		t.Errorf("at rest: %q (%v), want 0", read(), err)
	}
	if a := o.SafeActions(); len(a) != 1 || a[0].Path != file || string(a[0].Data) != "0" {
		t.Errorf("safe actions %+v, want 0 into the file", a)
	}
	os.Remove(file)
	if err := o.Rest(t.Context()); err == nil {
		t.Error("a missing file is no error; the guard would believe it is safe")
	}
}
