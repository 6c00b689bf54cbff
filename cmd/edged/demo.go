package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	behaviours "edged/scripts"
)

func (c *cli) demoVerb() *cobra.Command {
	var dir string
	var fresh bool
	settings := map[string]string{}
	cmd := verb("demo", "Run a simulated robot in an apartment", 0, 0, func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				cache = os.TempDir()
			}
			dir = filepath.Join(cache, "edged", "demo")
		}
		if fresh {
			if err := nobodyIn(cmd.Context(), "demo", dir, settings); err != nil {
				return err
			}
		}
		if err := layOut("home", dir, fresh); err != nil {
			return err
		}
		cfg, err := config.Load(dir, environ(), settings)
		if err != nil {
			return err
		}
		o := runOptions{cfg: cfg, settings: settings, sim: true, out: &lockedWriter{w: c.out}, lines: demoLines}
		if f, ok := c.in.(*os.File); ok {
			o.keys = f
		}
		return Run(cmd.Context(), o)
	})
	cmd.Long = "Runs a simulated robot in an apartment, with a copy of scripts/home that you can edit while it runs."
	cmd.Flags().StringVar(&dir, "dir", "", "where the copy is; in the cache folder if empty")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "begin with a new copy, losing edits")
	settingFlags(cmd, settings)
	return cmd
}

// nobodyIn looks whether a robot runs in a folder, before its files are written
// over. Whoever has the board's file open does.
func nobodyIn(ctx context.Context, verb, dir string, settings map[string]string) (err error) {
	board := absolute(filepath.Join(dir, ".edged", "board.db"))
	if cfg, err := config.Load(dir, environ(), settings); err == nil { // a broken one is about to be replaced
		board = boardFile(cfg)
	}
	if _, err := os.Stat(board); err != nil {
		return nil
	}
	b := bus.New(bus.Options{})
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	d, err := blackboard.Open(b, blackboard.Options{Path: board})
	if err != nil {
		return inUse(verb, board, err)
	}
	return d.Close()
}

// layOut writes a behaviour of the binary into a folder; what is there already
// stays, unless it is to be fresh.
func layOut(name, dir string, fresh bool) error {
	files, err := fs.Sub(behaviours.Files, name)
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		if _, err := os.Stat(to); !fresh && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		b, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
}
