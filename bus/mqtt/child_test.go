package mqtt_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/bus/mqtt"
)

// logOutbox is the simplest outbox that survives a kill: a file to which every
// change is appended with one write.
type logOutbox struct {
	mu    sync.Mutex
	f     *os.File
	last  uint64
	recs  map[uint64][]byte
	bytes int64
	fail  error // what Append and Remove return instead of working
}

var _ mqtt.Outbox = (*logOutbox)(nil)

func openLog(path string) (*logOutbox, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	o := &logOutbox{f: f, recs: map[uint64][]byte{}}
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	for len(all) >= 12 {
		id, n := binary.BigEndian.Uint64(all), binary.BigEndian.Uint32(all[8:])
		all = all[12:]
		if n == 1<<32-1 {
			delete(o.recs, id)
			continue
		}
		if uint64(len(all)) < uint64(n) {
			break
		}
		o.recs[id], all, o.last = all[:n], all[n:], max(o.last, id)
	}
	return o, nil
}

func (o *logOutbox) setFail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = err
}

func (o *logOutbox) Append(rec []byte) (uint64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return 0, o.fail
	}
	o.last++
	b := binary.BigEndian.AppendUint64(nil, o.last)
	b = binary.BigEndian.AppendUint32(b, uint32(len(rec)))
	if _, err := o.f.Write(append(b, rec...)); err != nil {
		return 0, err
	}
	o.recs[o.last] = slices.Clone(rec)
	o.bytes += int64(len(rec))
	return o.last, nil
}

func (o *logOutbox) Remove(ids ...uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return o.fail
	}
	var b []byte
	for _, id := range ids {
		o.bytes -= int64(len(o.recs[id]))
		delete(o.recs, id)
		b = binary.BigEndian.AppendUint64(b, id)
		b = binary.BigEndian.AppendUint32(b, 1<<32-1)
	}
	_, err := o.f.Write(b)
	return err
}

func (o *logOutbox) All() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		var ids []uint64
		for id := range o.recs {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			if !yield(id, o.recs[id]) {
				return
			}
		}
	}
}

func (o *logOutbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.recs)
}

func (o *logOutbox) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

const childTopics = 4

// child is a robot in a process of its own that says one number after the
// other, at a rate, and notes each one when the bus has taken it.
func child() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	dir := os.Getenv("EDGED_MQTT_CHILD")
	rate, err := strconv.Atoi(os.Getenv("EDGED_MQTT_RATE"))
	check(err)
	b := bus.New(bus.Options{})
	board, err := blackboard.Open(b, blackboard.Options{Path: filepath.Join(dir, "board.db")})
	check(err)
	journal, err := board.Journal("mqtt", blackboard.JournalOptions{Limit: 50_000})
	check(err)
	box, err := mqtt.OpenSpool(filepath.Join(dir, "spool"), journal)
	check(err)
	note, err := os.OpenFile(filepath.Join(dir, "taken"), os.O_RDWR|os.O_CREATE, 0o600)
	check(err)
	n := noted(dir)
	br, err := mqtt.New(b, mqtt.Options{
		URL: os.Getenv("EDGED_MQTT_URL"), ClientID: "child", Outbox: box, Limit: 50_000,
		Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "n/#", QoS: 1}}},
	})
	check(err)
	go func() { check(br.Serve(context.Background())) }()
	start, first := time.Now(), n
	for {
		for want := first + int64(time.Since(start).Seconds()*float64(rate)); n < want; {
			n++
			_, err := b.Publish(context.Background(), "child", fmt.Sprint("n/", n%childTopics), n)
			check(err)
			_, err = note.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(n)), 0)
			check(err)
		}
		if _, err := os.Stat(filepath.Join(dir, "enough")); err == nil && box.Len() == 0 {
			os.Exit(0)
		} else if err == nil {
			start, first = time.Now(), n
		}
		time.Sleep(time.Millisecond)
	}
}

// noted is the last number that the child's bus has taken.
func noted(dir string) int64 {
	b, err := os.ReadFile(filepath.Join(dir, "taken"))
	if err != nil || len(b) < 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func startChild(t *testing.T, dir, url string, rate int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "EDGED_MQTT_CHILD="+dir, "EDGED_MQTT_URL="+url, "EDGED_MQTT_RATE="+fmt.Sprint(rate))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}
