package main

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet is how long a folder must be still before it is read: editors write a
// file in several steps.
const quiet = 100 * time.Millisecond

// watchFolder calls changed whenever a script or the settings in the folder
// have been edited and are still, until ctx ends. It says for how long they have
// been, and calls again after the time that changed gives, if that is not 0 and
// nothing is edited before.
func watchFolder(ctx context.Context, dir string, changed func(still time.Duration) (again time.Duration)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if err := addFolders(w, dir); err != nil {
		w.Close()
		return err
	}
	go func() {
		defer w.Close()
		waited := quiet
		still := time.NewTimer(time.Hour)
		still.Stop()
		for {
			select {
			case e, ok := <-w.Events:
				if !ok {
					return
				}
				if e.Has(fsnotify.Create) {
					_ = addFolders(w, e.Name) // a new folder; a file is no folder, which is fine
				}
				if edited(e) {
					waited = quiet
					still.Reset(quiet)
				}
			case <-w.Errors: // an overflow: something has changed
				waited = quiet
				still.Reset(quiet)
			case <-still.C:
				if again := changed(waited); again > 0 {
					waited += again
					still.Reset(again)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

func edited(e fsnotify.Event) bool {
	name := filepath.Base(e.Name)
	return !e.Has(fsnotify.Chmod) && (strings.HasSuffix(name, ".star") || name == "edged.toml")
}

// addFolders watches a folder and those below it that scripts can be in.
func addFolders(w *fsnotify.Watcher, dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return w.Add(path)
	})
}
