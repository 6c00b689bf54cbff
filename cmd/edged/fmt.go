package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bazelbuild/buildtools/build"
	"github.com/spf13/cobra"

	"edged/starlark/lib"
	"edged/starlark/script"
)

func (c *cli) fmtVerb() *cobra.Command {
	var check bool
	cmd := verb("fmt [PATH…]", "Format scripts", 0, -1, func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] == "-" {
			return c.formatStream()
		}
		if len(args) == 0 {
			args = []string{"."}
		}
		var files []string
		for _, a := range args {
			list, err := starFiles(a)
			if err != nil {
				return err
			}
			files = append(files, list...)
		}
		changed, err := formatFiles(files, check)
		if e := c.print(changed, func(w io.Writer) {
			for _, f := range changed {
				fmt.Fprintln(w, f)
			}
		}); e != nil {
			return e
		}
		if err != nil {
			fmt.Fprintln(c.err, strings.Join(texts(err), "\n"))
		}
		if err != nil || check && len(changed) > 0 {
			return errShown
		}
		return nil
	})
	cmd.Long = "Formats scripts in the one form there is, buildifier's, and prints the names of those that were changed. PATH is a file or a folder; - formats standard input."
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; names that are printed are a problem")
	return cmd
}

// formatStream is for editors.
func (c *cli) formatStream() error {
	text, err := io.ReadAll(c.in)
	if err != nil {
		return fmt.Errorf("fmt: %w", err)
	}
	text, err = format("stdin", text)
	if err != nil {
		return err
	}
	_, err = c.out.Write(text)
	return err
}

// starFiles are the scripts at a path.
func starFiles(path string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && (p == path || strings.HasSuffix(p, ".star")):
			files = append(files, p)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("fmt: no file or folder %s%s", path, nearby(path))
	}
	if err != nil {
		return nil, fmt.Errorf("fmt: %w", err)
	}
	return files, nil
}

// formatFiles formats files in place and names those that were not in form. A
// file that is wrong stays as it is, and the others are done nevertheless.
func formatFiles(files []string, check bool) (changed []string, err error) {
	changed = []string{}
	for _, f := range files {
		text, e := os.ReadFile(f)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		out, e := format(f, text)
		switch {
		case e != nil:
			err = errors.Join(err, e)
			continue
		case bytes.Equal(text, out):
			continue
		case !check:
			if e := replaceFile(f, out); e != nil {
				err = errors.Join(err, e)
				continue
			}
		}
		changed = append(changed, f)
	}
	return changed, err
}

// The formatter knows no while: to it, such a loop is a for with a name that
// nobody has.
const standIn = "for __while__ in"

var while = regexp.MustCompile(`(?m)^([ \t]*)while\b`)

// format gives a script in form. The error shows the place as check does.
func format(name string, text []byte) ([]byte, error) {
	if bytes.Contains(text, []byte("__while__")) {
		return nil, fmt.Errorf("%s: the name __while__ is the formatter's", name)
	}
	tree, err := build.ParseDefault(name, while.ReplaceAll(text, []byte("${1}"+standIn)))
	if err != nil {
		if plain := syntaxError(name, text); plain != nil {
			return nil, plain
		}
		return nil, err
	}
	return bytes.ReplaceAll(build.Format(tree), []byte(standIn), []byte("while")), nil
}

// syntaxError is what the language itself says of a text that is none.
func syntaxError(name string, text []byte) error {
	for _, e := range script.Lint(name, string(text), lib.Predeclared()) {
		if e.Rule == "" {
			return e
		}
	}
	return nil
}

// replaceFile gives a file another text, whole or not at all.
func replaceFile(file string, text []byte) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(st.Mode().Perm()), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
