package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edged/background"
	"edged/bus"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
	"edged/starlark/script"
	"edged/workflow"
	"edged/workflow/society"
)

// The behaviour that is running, and putting an edited one in its place.

// ReloadTopic tells that a new version of the scripts runs.
const ReloadTopic = "edged/script/reload"

type scripts struct {
	r    *robot
	host lib.Host // without what the settings say, which may be edited too

	mu       sync.Mutex // guards the rest; held while a version takes over
	now      *lib.Behaviour
	settings string            // those that now was loaded with
	texts    map[string]string // the files that now was loaded from
	run      context.Context   // of the behaviours
	err      error             // why the latest version doesn't run, nil if it does
	stopped  bool
	dead     bool  // the child of isolated scripts has ended
	down     error // why it is not started again, nil if it is
	loaded   time.Time

	live     atomic.Pointer[lib.Behaviour] // now, for the stop, which waits for no lock
	treeMu   sync.Mutex                    // guards isolated; locked before mu
	isolated *background.Supervisor        // of the child of isolated scripts, nil if they are not

	hurryMu sync.Mutex // guards hurry; never held while waiting
	hurry   context.CancelFunc
}

// loadScripts loads the first version; a wrong one stops the start.
func (r *robot) loadScripts(ctx context.Context) error {
	data := filepath.Join(dataDir(r.cfg), "store")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	r.scripts = &scripts{r: r, host: lib.Host{
		Name: r.cfg.Name, Bus: r.bus, Board: r.board, Rig: r.rig, World: r.devices.world,
		Log: r.log, Print: r.out, Data: root, Limits: limitsOf(r.cfg), GaveUp: r.onGiveUp,
		Runs: workflow.NewRuns(r.board.Records("runs"), workflow.RunsOptions{}), Live: workflow.NewLive(),
		Turns: society.NewLog(r.board.Records("turns"), society.LogOptions{}),
	}}
	if err := r.think(ctx, &r.scripts.host); err != nil {
		return err
	}
	if r.scripts.now, r.scripts.settings, err = r.scripts.load(ctx, r.cfg); err != nil {
		return err
	}
	r.scripts.texts = r.scripts.read(r.scripts.now.Summary().Files)
	r.scripts.live.Store(r.scripts.now)
	r.rig.OnStop(func() { r.scripts.live.Load().CancelTurns() })
	return nil
}

func limitsOf(c *config.Config) script.Limits {
	return script.Limits{Time: time.Duration(c.Script.Time), Steps: uint64(c.Script.Steps), Depth: int(c.Script.Depth)}
}

func lookup(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// secrets reads a secret when a script asks for it.
func secrets(c *config.Config) func(string) (string, error) {
	return func(name string) (string, error) {
		file, ok := c.Secrets[name]
		if !ok {
			return "", lib.ErrNoSecret
		}
		path := c.Path(file)
		st, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("secret %s: %w", name, err)
		}
		if st.Mode().Perm()&othersMayRead(path) != 0 {
			return "", fmt.Errorf("secret %s: %s can be read by others: chmod 600 it", name, path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("secret %s: %w", name, err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
}

// othersMayRead are the permissions that a secret must not have. Credentials
// from the service manager are readable by a group, in a folder that nobody
// else gets into.
func othersMayRead(path string) fs.FileMode {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		return 0o037
	}
	return 0o077
}

func grantsOf(c *config.Config) lib.Grants {
	a := c.Allow
	return lib.Grants{
		All: a.All, BusPub: a.Bus.Pub, BusSub: a.Bus.Sub, BB: a.BB, HWRead: a.HW.Read, HWWrite: a.HW.Write,
		LLM: a.LLM, HTTP: a.HTTP, Exec: a.Exec,
	}
}

// folderOf is the name of the folder as messages, topics and keys begin with.
func folderOf(c *config.Config) string { return c.Name }

func loadOptions(c *config.Config) lib.Options {
	return lib.Options{Folder: folderOf(c), Grants: grantsOf(c), Isolated: isolation(c)}
}

// openFolder opens a robot's folder so that nothing outside it is reached.
func openFolder(dir string) (fs.FS, func(), error) {
	root, folder, err := script.OpenDir(dir)
	if err != nil {
		return nil, nil, err
	}
	return folder, func() { _ = root.Close() }, nil // it was only read
}

// load runs the top level of what is in the folder now, and gives what of the
// settings it depends on.
func (s *scripts) load(ctx context.Context, c *config.Config) (*lib.Behaviour, string, error) {
	folder, done, err := openFolder(c.Dir())
	if err != nil {
		return nil, "", err
	}
	defer done()
	host := s.host
	host.Env, host.Secret = lookup(c.Env), secrets(c)
	o := loadOptions(c)
	if o.Isolated != nil {
		host.GaveUp = s.r.degrade // scripts from elsewhere don't end the robot
	}
	b, err := lib.Load(ctx, &host, folder, o)
	return b, fmt.Sprint(c.Allow, c.Env, c.Secrets, c.Script.Isolated, c.Script.Memory), err
}

func (s *scripts) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.loaded = ctx, time.Now()
	defer s.r.board.Release() // what opening found, to a trace and handlers that listen
	return s.now.Start(ctx)
}

func (s *scripts) stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.r.cfg.Script.Grace))
	defer cancel()
	return s.now.Stop(ctx)
}

// behaviour is the one that runs, and why the latest version doesn't, if so.
func (s *scripts) behaviour() (*lib.Behaviour, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.err
}

// errUnchanged says that the folder holds what runs already.
var errUnchanged = errors.New("nothing has changed")

// reload puts what is in the folder now in the place of the running version.
func (s *scripts) reload(ctx context.Context, source string) (*lib.Behaviour, error) {
	b, err := s.takeOver(ctx, source)
	if err == nil {
		err = s.supervise(ctx)
	}
	return b, err
}

// takeOver loads what is in the folder now, beside the running version, and puts
// it in its place. A wrong one leaves the old one running. Runs of a version
// before the running one that still take their time are not waited for.
func (s *scripts) takeOver(ctx context.Context, source string) (*lib.Behaviour, error) {
	s.hurryUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	began := time.Now()
	if s.stopped {
		return s.now, errors.New("the robot is ending")
	}
	next, settings, err := s.edited(ctx)
	if err == nil && next.Hash() == s.now.Hash() && settings == s.settings && s.err == nil && !s.dead && !s.now.Failed() {
		return s.now, errors.Join(errUnchanged, next.Stop(ctx))
	}
	if err == nil {
		err = s.swap(next)
	}
	if err != nil {
		s.err = err
		s.r.bus.Report(ctx, "reload", err, bus.Event{})
		return s.now, err
	}
	s.now, s.settings, s.err = next, settings, nil
	s.texts = s.read(next.Summary().Files)
	s.live.Store(next)
	s.dead, s.down, s.loaded = false, nil, time.Now()
	took := next.Takeover()
	_, err = s.r.bus.Publish(ctx, source, ReloadTopic, map[string]any{
		"folder": next.Folder(), "hash": next.Hash(), "ms": time.Since(began).Milliseconds(),
		"taken": took.Taken, "lost": took.Lost, "dropped": took.Dropped, "cancelled": took.Cancelled,
	})
	return next, err
}

// refuse notes why an edit is not loaded.
func (s *scripts) refuse(ctx context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.r.bus.Report(ctx, "reload", err, bus.Event{})
}

// halfWritten is how long a file must be still that looks half written.
const halfWritten = 2 * time.Second

// read reads files of the folder, as messages name them.
func (s *scripts) read(files []string) map[string]string {
	texts := make(map[string]string)
	for _, f := range files {
		name, ours := strings.CutPrefix(f, folderOf(s.r.cfg)+"/")
		if text, err := os.ReadFile(filepath.Join(s.r.cfg.Dir(), filepath.FromSlash(name))); ours && err == nil {
			texts[f] = string(text)
		}
	}
	return texts
}

// halfWritten names a file of the running version that looks as if somebody was
// writing it: it is not there, is empty, or is the beginning of what it was.
// Editors and copies empty a file before they fill it.
func (s *scripts) halfWritten() (file string, empty bool) {
	s.mu.Lock()
	was := s.texts
	s.mu.Unlock()
	now := s.read(slices.Collect(maps.Keys(was)))
	for name, text := range was {
		has, there := now[name]
		if has == text || strings.TrimSpace(text) == "" || there && !strings.HasPrefix(text, has) {
			continue
		}
		if file = name; there && strings.TrimSpace(has) == "" {
			return name, true
		}
	}
	return file, false
}

// edited reads the settings once more: what scripts may do and know can be
// edited like them. Anything else in edged.toml holds from the next start on.
func (s *scripts) edited(ctx context.Context) (*lib.Behaviour, string, error) {
	c, err := config.Load(s.r.cfg.Dir(), environ(), s.r.settings)
	if err != nil {
		return nil, "", err
	}
	return s.load(ctx, c)
}

// swap puts next in the place of the running version. Its runs may go on for
// the time of grace, or until the next reload; then they are cancelled.
func (s *scripts) swap(next *lib.Behaviour) error {
	grace, cancel := context.WithTimeout(s.run, time.Duration(s.r.cfg.Script.Grace))
	defer cancel()
	s.hurryMu.Lock()
	s.hurry = cancel
	s.hurryMu.Unlock()
	err := lib.Swap(grace, s.now, next)
	if err != nil && !strings.HasPrefix(err.Error(), "lib: start ") {
		// It runs; what didn't end in time is the old version's.
		s.r.bus.Report(s.run, "reload", err, bus.Event{})
		return nil
	}
	return err
}

func (s *scripts) hurryUp() {
	s.hurryMu.Lock()
	defer s.hurryMu.Unlock()
	if s.hurry != nil {
		s.hurry()
	}
}
