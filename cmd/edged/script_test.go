package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"edged": func() { os.Exit(Main()) }, "http": func() { os.Exit(httpMain()) }})
}

// TestScript runs testdata/script: one file for a verb, and one for each kind
// of mistake. What a person reads there is looked at as prose. PORT is a port
// that nobody has, and no robot of this machine is seen.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			e.Setenv("PORT", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
			e.Setenv("EDGED_RUNTIME_DIR", filepath.Join(e.WorkDir, ".run"))
			e.Setenv("EDGED_PAGE_LISTEN", "off") // page.txtar has it
			return l.Close()
		},
	})
}
