package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"edged/blackboard"
	"edged/cmd/edged/internal/config"
)

// A start that fails is tried again by the service manager, and fails again if
// it is something kept that makes it fail: retained messages that take all
// memory, say. So a note of every start lies in the data folder until the robot
// has been up for half a minute or has ended in order. Where it is found with a
// reason to think that the process died of itself, the start has failed: there
// is a report of a crash, or the kernel has killed somebody for want of memory.
// (A power cut or a kill is no reason.) After two such starts the retained
// events are set aside, after four the whole board.

const (
	startNote  = "starting"
	crashFile  = "crash"
	startsWell = 30 * time.Second
)

// starting is the note.
type starting struct {
	Boot   string `json:"boot"`
	OOM    int64  `json:"oom_kills"` // of this machine since it booted
	Failed int    `json:"failed"`    // starts in a row before this one

	data string
	file *os.File
	well *time.Timer
}

// beginStart looks at how the last start went and notes this one. A data folder
// that can't be written keeps no note.
func beginStart(c *config.Config) *starting {
	s := &starting{Boot: fileText("/proc/sys/kernel/random/boot_id"), OOM: oomKills(), data: dataDir(c)}
	crash := filepath.Join(s.data, crashFile)
	report, _ := os.Stat(crash)
	crashed := report != nil && report.Size() > 0
	var last starting
	if b, err := os.ReadFile(filepath.Join(s.data, startNote)); err == nil && json.Unmarshal(b, &last) == nil {
		s.Failed = last.Failed
		if crashed || last.Boot == s.Boot && s.OOM > last.OOM {
			s.Failed++
		}
	}
	if os.MkdirAll(s.data, 0o700) != nil {
		return s
	}
	if crashed {
		_ = os.Rename(crash, crash+".last") // for edged report and its reader
	}
	if b, err := json.Marshal(s); err == nil {
		_ = os.WriteFile(filepath.Join(s.data, startNote), b, 0o600)
	}
	var err error
	if s.file, err = os.OpenFile(crash, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600); err == nil {
		_ = debug.SetCrashOutput(s.file, debug.CrashOptions{})
	}
	s.well = time.AfterFunc(startsWell, s.forget)
	return s
}

// forget takes the note away: the start went well, or ended in order.
func (s *starting) forget() { _ = os.Remove(filepath.Join(s.data, startNote)) }

// end is the end of a run that did not crash.
func (s *starting) end() {
	if s.well == nil {
		return
	}
	s.well.Stop()
	s.forget()
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}

func fileText(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

// oomKills is how many processes the kernel has killed for want of memory, in
// containers too; 0 if it doesn't say.
func oomKills() int64 {
	for l := range strings.Lines(fileText("/proc/vmstat")) {
		if n, ok := strings.CutPrefix(l, "oom_kill "); ok {
			v, _ := strconv.ParseInt(strings.TrimSpace(n), 10, 64)
			return v
		}
	}
	return 0
}

// relieve sets aside what may have kept the robot from starting.
func (r *robot) relieve(s *starting) {
	if s.Failed < 2 {
		return
	}
	board := boardFile(r.cfg)
	times := fmt.Sprintf("%d starts in a row failed", s.Failed)
	if s.Failed < 4 {
		n, path, err := r.evictRetained(board)
		if err == nil {
			if n > 0 {
				r.setAside(fmt.Sprintf("%s: the %d retained events are not taken up", times, n), path)
			}
			return
		}
		r.log.Error("the retained events can't be set aside", "err", err)
	}
	to := board + ".aside-" + time.Now().UTC().Format("20060102T150405.000000")
	if err := os.Rename(board, to); err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			r.log.Error("the board can't be set aside", "err", err)
		}
		return
	}
	r.begunAnew = true
	r.setAside(times+": the blackboard begins anew, and the robot is stopped, since nobody knows whether it was", to)
}

// evictRetained moves the retained events to a file.
func (r *robot) evictRetained(board string) (n int, path string, err error) {
	a, err := r.openAside("retained")
	if err != nil {
		return 0, "", err
	}
	n, err = blackboard.Evict(board, "retained", a.add)
	if err = errors.Join(err, a.close()); err != nil || n == 0 {
		return n, "", errors.Join(err, os.Remove(a.path))
	}
	return n, a.path, nil
}

// stopIfUnknown stops a robot whose board, and with it the latch of a stop by
// hardware, is gone.
func (r *robot) stopIfUnknown(ctx context.Context) {
	if r.begunAnew {
		r.rig.Trip(ctx, "hw:latch", "the blackboard, which knows whether hardware had stopped the robot, was set aside")
	}
}
