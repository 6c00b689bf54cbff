package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		filter, sub string
		want        bool
	}{
		{"#", "a/b", true}, {"#", "#", true}, {"#", "$SYS/x", false}, {"$SYS/#", "$SYS/x", true}, {"+/x", "$a/x", false},
		{"a/#", "a", true}, {"a/#", "a/#", true}, {"a/#", "a/+/c", true}, {"a/+", "a/#", false}, {"a/+", "a/+", true},
		{"a/+", "a/b", true}, {"a/+", "a/b/c", false}, {"a/b", "a/+", false}, {"a/b", "a/b", true}, {"a", "a/b", false},
		{"a/b", "a", false}, {"+", "#", false}, {"a/+/#", "a/b", true}, {"/a", "/a", true}, {"/a", "a", false},
	} {
		if got := covers(tc.filter, tc.sub); got != tc.want {
			t.Errorf("covers(%q, %q): got %v, want %v", tc.filter, tc.sub, got, tc.want)
		}
	}
	a := &account{read: []string{"a/#"}}
	if !a.may("$share/g/a/b", false) || a.may("$share/g/b", false) || a.may("$share/g", false) || a.may("a/b", true) {
		t.Error("shared subscriptions are checked by their filter, and reading is not writing")
	}
}

// If a filter covers another, it matches every topic that the other matches.
func TestCoversMeansMatches(t *testing.T) {
	level := rapid.SampledFrom([]string{"a", "b", "", "+", "#"})
	topicLevel := rapid.SampledFrom([]string{"a", "b", "", "c"})
	rapid.Check(t, func(t *rapid.T) {
		filter := strings.Join(rapid.SliceOfN(level, 1, 4).Draw(t, "filter"), "/")
		sub := strings.Join(rapid.SliceOfN(level, 1, 4).Draw(t, "sub"), "/")
		topic := strings.Join(rapid.SliceOfN(topicLevel, 1, 5).Draw(t, "topic"), "/")
		if !filterOK(filter) || !filterOK(sub) {
			return
		}
		if covers(filter, sub) && covers(sub, topic) && !covers(filter, topic) {
			t.Fatalf("%q covers %q, which matches %q, which it doesn't", filter, sub, topic)
		}
	})
}

// What systemd hands over is readable by a group; elsewhere that is refused.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	if err := os.WriteFile(file, []byte("a:b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := Passwords(file); err == nil {
		t.Error("a group's file was taken")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if _, err := Passwords(file); err != nil {
		t.Error(err)
	}
}
