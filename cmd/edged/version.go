package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// binary is which edged this is.
type binary struct {
	Version  string    `json:"version"`
	Go       string    `json:"go"`
	OS       string    `json:"os"`
	Arch     string    `json:"arch"`
	Commit   string    `json:"commit,omitempty"`
	Time     time.Time `json:"time,omitzero"` // of the commit
	Modified bool      `json:"modified,omitempty"`
}

// thisBinary reads what the linker and the go command put into the binary.
func thisBinary() binary {
	b := binary{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		case "vcs.time":
			b.Time, _ = time.Parse(time.RFC3339, s.Value) // the zero time is left out
		}
	}
	return b
}

func (b binary) String() string {
	s := fmt.Sprintf("edged %s, %s, %s/%s", b.Version, b.Go, b.OS, b.Arch)
	if b.Commit == "" {
		return s
	}
	s += fmt.Sprintf(", commit %.12s", b.Commit)
	if !b.Time.IsZero() {
		s += " of " + b.Time.Format(time.DateOnly)
	}
	if b.Modified {
		s += ", with changes"
	}
	return s
}

func (c *cli) versionVerb() *cobra.Command {
	return verb("version", "Print which edged this is", 0, 0, func(cmd *cobra.Command, args []string) error {
		b := thisBinary()
		return c.print(b, func(w io.Writer) { fmt.Fprintln(w, b) })
	})
}
