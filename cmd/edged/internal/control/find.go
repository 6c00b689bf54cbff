package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// ErrNone says that no robot is running.
var ErrNone = errors.New("no robot is running")

// An Instance is a running robot as it is found.
type Instance struct {
	Name   string `json:"name"`
	Dir    string `json:"dir"`
	Socket string `json:"socket"`
	PID    int    `json:"pid"`
}

// RuntimeDir is where running robots leave their names: EDGED_RUNTIME_DIR,
// else below XDG_RUNTIME_DIR, else /run/edged for root, else a folder in /tmp
// that belongs to the user.
func RuntimeDir() string {
	if d := os.Getenv("EDGED_RUNTIME_DIR"); d != "" {
		return d
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "edged")
	}
	if os.Getuid() == 0 {
		return "/run/edged"
	}
	return filepath.Join(os.TempDir(), "edged-"+strconv.Itoa(os.Getuid()))
}

// Announce lets clients find the robot, until the returned function is called.
func Announce(in Instance) (forget func(), err error) {
	dir := RuntimeDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("control: announce: %w", err)
	}
	if err := Owned(dir); err != nil {
		return nil, err
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strconv.Itoa(in.PID)+".json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return nil, fmt.Errorf("control: announce: %w", err)
	}
	return func() { os.Remove(path) }, nil
}

// Owned refuses a folder in a shared place that somebody else made.
func Owned(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("control: announce: %w", err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.IsDir() || ok && int(sys.Uid) != os.Getuid() {
		return fmt.Errorf("control: announce: %s belongs to somebody else", dir)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("control: announce: others may write to %s: chmod 700 it", dir)
	}
	return nil
}

// Running lists the robots of this user that run, by process number.
func Running() []Instance {
	dir := RuntimeDir()
	if Owned(dir) != nil {
		return nil
	}
	names, err := fs.Glob(os.DirFS(dir), "*.json")
	if err != nil {
		return nil
	}
	var list []Instance
	for _, n := range names {
		path := filepath.Join(dir, n)
		b, err := os.ReadFile(path)
		var in Instance
		if err != nil || json.Unmarshal(b, &in) != nil {
			continue
		}
		if syscall.Kill(in.PID, 0) == syscall.ESRCH {
			os.Remove(path) // killed before it could do so itself
			continue
		}
		if _, err := os.Stat(in.Socket); err == nil {
			list = append(list, in)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return list
}

// Find gives the socket to talk to: the one that is named, that of the folder
// whose data is given if somebody answers there, else that of the only robot
// running.
func Find(named, data string) (string, error) {
	if named != "" {
		return named, nil
	}
	if data != "" {
		path := filepath.Join(data, "edged.sock")
		if c, err := dial(path); err == nil {
			c.Close()
			return path, nil
		}
	}
	switch list := Running(); len(list) {
	case 0:
		return "", ErrNone
	case 1:
		return list[0].Socket, nil
	default:
		var b strings.Builder
		fmt.Fprintf(&b, "%d robots are running; say which with --socket:", len(list))
		for _, in := range list {
			fmt.Fprintf(&b, "\n  --socket %s   # %s, %s", in.Socket, in.Name, in.Dir)
		}
		return "", errors.New(b.String())
	}
}
