package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"edged/cmd/edged/internal/config"
	"edged/starlark/value"
)

// Which folder is a robot's, and what is where in it.

// robotFolder says what is missing in a folder that is none of a robot.
func robotFolder(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if near := nearby(dir); near != "" {
			return fmt.Errorf("run: no folder %s%s", dir, near)
		}
		return fmt.Errorf("run: no folder %s; 'edged new %s' makes one", dir, dir)
	case err != nil:
		return fmt.Errorf("run: %w", err)
	case !st.IsDir():
		return usagef("run: %s is a file; give the folder it is in", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "main.star")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run: %s has no main.star; 'edged new NAME' makes a folder that runs", dir)
	}
	return nil
}

// robots are the folders of robots at path: itself, or those below.
func robots(verb, path string) ([]string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no folder %s%s", verb, path, nearby(path))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", verb, err)
	case !st.IsDir():
		return nil, usagef("%s: %s is a file; give the folder it is in", verb, path)
	}
	var dirs []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case p != path && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(p, "main.star")); err == nil {
			dirs = append(dirs, p)
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && len(dirs) == 0 {
		err = fmt.Errorf("%s has no main.star; 'edged new NAME' makes a folder that runs", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return dirs, nil
}

// robotAt gives the settings of the robot in a folder.
func robotAt(verb, dir string) (*config.Config, error) {
	if _, err := os.Stat(filepath.Join(dir, "main.star")); err != nil {
		return nil, fmt.Errorf("%s: no robot in folder %s: it has no main.star%s", verb, dir, nearby(dir))
	}
	return config.Load(dir, environ(), nil)
}

// nearby is the folder beside it that may have been meant.
func nearby(dir string) string {
	entries, err := os.ReadDir(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return ""
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	if n := value.Nearest(filepath.Base(dir), names); n != "" {
		return fmt.Sprintf("; did you mean %s?", filepath.Join(filepath.Dir(filepath.Clean(dir)), n))
	}
	return ""
}

// absolute is a path that means the same in another process.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// environ is the environment as the settings see it.
func environ() []string { return os.Environ() }
