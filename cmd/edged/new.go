package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	behaviours "edged/scripts"
)

var (
	// robotName is what is a topic level, the start of keys, and text in a
	// script, without a second thought.
	robotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

	// guardName is where the files of the guard speak of themselves: a topic,
	// a key, the setting, the command line.
	guardName = regexp.MustCompile("\\bguard([/\"`])")
)

func (c *cli) newVerb() *cobra.Command {
	cmd := verb("new NAME", "Make a folder that runs and whose tests pass", 1, 1, func(cmd *cobra.Command, args []string) error {
		dir := filepath.Clean(args[0])
		name := filepath.Base(dir)
		if !robotName.MatchString(name) {
			return usagef("new: %q can't be a robot's name; use letters, digits, _ and -", name)
		}
		files, err := newFolder(dir, name)
		if err != nil {
			return err
		}
		made := map[string]any{"name": name, "folder": dir, "files": files}
		return c.print(made, func(w io.Writer) {
			fmt.Fprintf(w, "%s: %s\n", dir, strings.Join(files, ", "))
			fmt.Fprintf(w, "try: edged test %s; edged run %s\n", dir, dir)
		})
	})
	cmd.Long = "Makes a folder with a behaviour, its settings and its tests: a copy of the guard, an alarm on one screen."
	cmd.Example = "edged new garden\nedged test garden"
	return cmd
}

// newFolder copies the guard under another name. It makes the folder and never
// writes into one that is there.
func newFolder(dir, name string) ([]string, error) {
	guard, err := fs.Sub(behaviours.Files, "guard")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("new: %w", err)
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("new: %s is there already; choose another name", dir)
	case err != nil:
		return nil, fmt.Errorf("new: %w", err)
	}
	var files []string
	err = fs.WalkDir(guard, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := fs.ReadFile(guard, path)
		if err != nil {
			return err
		}
		files = append(files, path)
		return os.WriteFile(to, guardName.ReplaceAll(text, []byte(name+"${1}")), 0o644)
	})
	if err != nil {
		return nil, fmt.Errorf("new: %w", err)
	}
	return files, nil
}
