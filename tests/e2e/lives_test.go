package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lives is a robot with one script that is killed and started again.
type lives struct {
	*robot // as it is now
	t      *testing.T
	dir    string
}

// newLives begins the first one.
func newLives(t *testing.T, script string) *lives {
	t.Helper()
	l := &lives{t: t, dir: t.TempDir()}
	for name, text := range map[string]string{"main.star": script, "edged.toml": "name = \"bot\"\n"} {
		if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l.up()
	return l
}

// up begins the next one.
func (l *lives) up() {
	l.t.Helper()
	l.robot = start(l.t, l.dir, "run", l.dir, "--sim")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if strings.Contains(l.out.String(), "memory") {
			return
		}
		if time.Now().After(end) {
			l.t.Fatal("not up within 10 s")
		}
	}
}

// oldest reads the oldest durable run; false if there is none.
func (l *lives) oldest(into any, where ...string) bool {
	l.t.Helper()
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(l.must(append([]string{"runs", "--json"}, where...)...)), &list); err != nil {
		l.t.Fatal(err)
	}
	if len(list) == 0 {
		return false
	}
	if err := json.Unmarshal([]byte(l.must(append([]string{"runs", "show", "--json", list[0].ID}, where...)...)), into); err != nil {
		l.t.Fatal(err)
	}
	return true
}
