package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
)

// How verbs find and ask the robot that is meant.

// meant is the robot that a verb is about: the one in dir or, if that is empty,
// the one in this folder or else the one running. There is a client if it runs;
// else there are its settings.
func (c *cli) meant(verb, dir string) (*control.Client, *config.Config, error) {
	if dir == "" {
		if _, err := os.Stat("main.star"); err != nil || c.socket != "" {
			cl, err := c.dial()
			return cl, nil, err
		}
		dir = "."
	}
	cfg, err := robotAt(verb, dir)
	if err != nil {
		return nil, nil, err
	}
	cl, err := control.Dial(filepath.Join(dataDir(cfg), socketName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, cfg, nil
	}
	return cl, cfg, err
}

// dial connects to the running robot that is meant.
func (c *cli) dial() (*control.Client, error) {
	data := ""
	if cfg, err := config.Load(".", os.Environ(), nil); err == nil {
		data = dataDir(cfg)
	}
	path, err := control.Find(c.socket, data)
	if errors.Is(err, control.ErrNone) {
		return nil, errors.New("no robot is running; start one with 'edged run DIR' or 'edged demo', or name its socket with --socket")
	}
	if err != nil {
		return nil, err
	}
	return control.Dial(path)
}

// call asks the running robot for one thing.
func (c *cli) call(ctx context.Context, do string, with, out any) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.Call(ctx, do, with, out)
}

// stream asks the running robot for something that goes on.
func (c *cli) stream(ctx context.Context, do string, with any, each func(json.RawMessage) error) error {
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.Stream(ctx, do, with, each)
}
