package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
)

// The data folder, and what a robot does that can't write to it: a card that
// has gone read-only, a folder of another user. It comes up, says so loudly,
// and works in a spare folder in memory instead: socket, token, audit, outbox
// and trace are there. Only the board's file stays where it is: what it holds
// is read, keys in memory work, and it is written again when it can be.

// homeData is where the settings say that the data is.
func homeData(cfg *config.Config) string {
	if cfg.Data != "" {
		return cfg.Path(cfg.Data)
	}
	return filepath.Join(cfg.Dir(), ".edged")
}

// spareData is where it is when homeData can't be written: beside the names of
// running robots, and the same every time, so that clients find it.
func spareData(cfg *config.Config) string {
	sum := sha256.Sum256([]byte(absolute(homeData(cfg))))
	return filepath.Join(control.RuntimeDir(), fmt.Sprintf("data-%x", sum[:6]))
}

// dataDir is the folder with the data of the robot in dir, as far as it can be
// known from outside: the spare one if a robot's socket is there.
func dataDir(cfg *config.Config) string {
	spare := spareData(cfg)
	if _, err := os.Lstat(filepath.Join(spare, socketName)); err == nil {
		return spare
	}
	return homeData(cfg)
}

// boardFile is never in the spare folder.
func boardFile(cfg *config.Config) string { return absolute(filepath.Join(homeData(cfg), "board.db")) }

func traceDir(cfg *config.Config) string { return filepath.Join(dataDir(cfg), "trace") }

const socketName = "edged.sock"

// writable tries whether all can be written that a robot writes, and makes the
// folders. Permissions alone would not tell a medium that has gone read-only.
func writable(data string) error {
	for _, dir := range []string{data, filepath.Join(data, "store"), filepath.Join(data, "trace")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		f, err := os.CreateTemp(dir, ".probe-*")
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			return err
		}
	}
	for _, name := range []string{auditFile, "outbox"} {
		f, err := os.OpenFile(filepath.Join(data, name), os.O_WRONLY|os.O_APPEND, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openData decides where the robot works; the board's file is at home in any case.
func (r *robot) openData() (home string, err error) {
	home, spare := homeData(r.cfg), spareData(r.cfg)
	_ = os.Remove(filepath.Join(spare, socketName)) // of a robot that was killed
	err = writable(home)
	switch {
	case err == nil:
		return home, nil
	case !unwritable(err):
		return home, fmt.Errorf("data folder: %w; name another with the setting data", err)
	}
	if bad := errors.Join(os.MkdirAll(spare, 0o700), control.Owned(spare), writable(spare)); bad != nil {
		return home, fmt.Errorf("data folder: %w; and there is no other: %w", err, bad)
	}
	r.dataTrouble = fmt.Sprintf("%s can't be written: %v; what is kept now is kept in %s, and gone when the power is; make it writable and start again", home, cause(err), spare)
	r.log.Error("data folder: " + r.dataTrouble)
	r.cfg.Data = absolute(spare)
	return home, nil
}

// unwritable reports whether this is what a bad or full medium, or a folder of
// somebody else, answers.
func unwritable(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// cause is what the system said.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
