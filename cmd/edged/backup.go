package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"edged/blackboard"
	"edged/bus"
	"edged/cmd/edged/internal/control"
)

// The verbs backup and restore. A backup is made by the process that has the
// board open and written by the one that was asked for it: a robot that runs
// as a service may not see the folder the file goes to.

// saved is what was backed up or restored.
type saved struct {
	File  string `json:"file"`
	Board string `json:"board"`
	Bytes int64  `json:"bytes"`
}

func (c *cli) backupVerb() *cobra.Command {
	var dir string
	cmd := verb("backup FILE", "Save the blackboard to a file", 1, 1, func(cmd *cobra.Command, args []string) error {
		cl, cfg, err := c.meant("backup", dir)
		if err != nil {
			return err
		}
		done := saved{File: args[0]}
		if cl != nil {
			defer cl.Close()
			done, err = receive(cmd.Context(), cl, args[0], c.progress("backup"))
		} else {
			done.Board = boardFile(cfg)
			done.Bytes, err = backupOffline(cmd.Context(), done.Board, args[0])
		}
		if err != nil {
			return err
		}
		return c.print(done, func(w io.Writer) { fmt.Fprintf(w, "saved %s: %d bytes in %s\n", done.Board, done.Bytes, done.File) })
	})
	cmd.Long = "Saves everything on the blackboard, as of one moment, to a file that 'edged restore' takes. The robot may be running."
	cmd.Flags().StringVar(&dir, "dir", "", "folder of the robot; the one here, or else the one running")
	return cmd
}

func (c *cli) restoreVerb() *cobra.Command {
	var dir string
	cmd := verb("restore FILE", "Put a saved blackboard in place", 1, 1, func(cmd *cobra.Command, args []string) error {
		cl, cfg, err := c.meant("restore", dir)
		if err != nil {
			return err
		}
		if cl != nil {
			cl.Close()
			return fmt.Errorf("restore: the robot in %s is running; end it first", dir)
		}
		st, err := os.Stat(args[0])
		if err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		done := saved{args[0], boardFile(cfg), st.Size()}
		if same(args[0], done.Board) {
			return usagef("restore: %s is the board itself; give a file that 'edged backup' wrote", args[0])
		}
		_, err = os.Stat(done.Board)
		kept := err == nil
		if err := blackboard.Restore(args[0], done.Board); err != nil {
			return inUse("restore", done.Board, err)
		}
		return c.print(done, func(w io.Writer) {
			fmt.Fprintf(w, "restored %s from %s\n", done.Board, done.File)
			if kept {
				fmt.Fprintf(w, "what was there is kept as %s.replaced-TIME\n", filepath.Base(done.Board))
			}
		})
	})
	cmd.Long = "Checks a file that 'edged backup' wrote and puts it in the place of the blackboard of a robot that doesn't run.\nThe board that was there is kept beside it."
	cmd.Flags().StringVar(&dir, "dir", ".", "folder of the robot")
	return cmd
}

// inUse says who has a board's file open, if that is what err is about.
func inUse(verb, board string, err error) error {
	if !errors.Is(err, blackboard.ErrLocked) {
		return err
	}
	return fmt.Errorf("%s: %s is in use: this robot runs already; end it first ('edged status' names its process)", verb, board)
}

// same reports whether two names are of one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// backupOffline saves the board of a robot that doesn't run.
func backupOffline(ctx context.Context, board, file string) (size int64, err error) {
	if same(board, file) {
		return 0, usagef("backup: %s is the board itself", file)
	}
	if _, err := os.Stat(board); err != nil {
		return 0, fmt.Errorf("backup: there is no board yet: %w", err)
	}
	b := bus.New(bus.Options{})
	defer func() { err = errors.Join(err, b.Close(ctx)) }()
	d, err := blackboard.Open(b, blackboard.Options{Path: board})
	if err != nil {
		return 0, inUse("backup", board, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.Backup(ctx, file); err != nil {
		return 0, err
	}
	st, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// piece is a part of a backup on its way to the client, or before all of them
// what is to come.
type piece struct {
	All  *saved `json:"all,omitempty"`
	Data []byte `json:"data,omitempty"`
}

// handleBackup makes a backup beside the board and sends it.
func (r *robot) handleBackup(ctx context.Context, _ json.RawMessage, send func(any) error) error {
	tmp, err := os.CreateTemp(dataDir(r.cfg), "backup-*.db")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer os.Remove(tmp.Name())
	tmp.Close()
	if err := r.board.Backup(ctx, tmp.Name()); err != nil {
		return err
	}
	f, err := os.Open(tmp.Name())
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := send(piece{All: &saved{Board: boardFile(r.cfg), Bytes: st.Size()}}); err != nil {
		return nil // the client is gone
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("backup: %w", err)
		}
		if err := send(piece{Data: buf[:n]}); err != nil {
			return nil
		}
	}
}

// receive writes the backup that a running robot sends. The file has its name
// only once it is complete and on disk.
func receive(ctx context.Context, cl *control.Client, file string, p *progress) (all saved, err error) {
	defer p.end()
	part, err := os.OpenFile(file+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return all, fmt.Errorf("backup: %w", err)
	}
	defer func() {
		part.Close()
		os.Remove(part.Name()) // if it is still there
	}()
	got := int64(0)
	err = cl.Stream(ctx, "backup", nil, func(b json.RawMessage) error {
		var next piece
		if err := json.Unmarshal(b, &next); err != nil {
			return err
		}
		if next.All != nil {
			all, p.total = *next.All, next.All.Bytes
			if same(all.Board, file) {
				return usagef("backup: %s is the board itself", file)
			}
		}
		n, err := part.Write(next.Data)
		got += int64(n)
		p.add(n)
		return err
	})
	all.File = file
	switch {
	case err != nil:
		return all, err
	case got == 0 || got != all.Bytes:
		return all, fmt.Errorf("backup: broken off after %d of %d bytes", got, all.Bytes)
	}
	if err := errors.Join(part.Sync(), os.Rename(part.Name(), file)); err != nil {
		return all, fmt.Errorf("backup: %w", err)
	}
	return all, nil
}
