package blackboard

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// What was stored and is not what had been written.
//
// A record that fails its checksum is never given out. The whole file is
// copied aside, and the record is taken out of it, so that snapshots are good
// again. In its place the file gets a mark, or the value would simply be
// absent after the next start: whoever reads the key gets the error until
// somebody sets or deletes it.

// Damage is one thing that was stored and is not what had been written.
type Damage struct {
	What  string    `json:"what"`          // "key battery", "record latch of stop", "the file"
	Key   string    `json:"key,omitempty"` // of the board, if it is one
	Error string    `json:"error"`
	Copy  string    `json:"copy,omitempty"` // the file as it was found
	Time  time.Time `json:"time"`           // when it was found
}

// String says it in one line, with what to do.
func (d Damage) String() string {
	text := d.What + ": " + d.Error
	if d.Key != "" {
		text += "; set or delete it"
	}
	if d.Copy != "" {
		text += "; as it was found: " + d.Copy
	}
	return text
}

// An Inspection is what a file that nobody has open was found to hold.
type Inspection struct {
	Damages []Damage
	board   *Board
}

// Record gives a named record of a room.
func (i *Inspection) Record(ns, name string) ([]byte, bool) { return i.board.Records(ns).Get(name) }

// Inspect reads a board's file that nobody has open. It changes nothing. A file
// that is missing holds nothing and is not damaged.
func Inspect(path string) (*Inspection, error) {
	o := Options{Path: path}
	o.fill()
	b := &Board{opt: o}
	b.store = &store{path: path, opt: &b.opt}
	err := b.store.readOnly(b.loader())
	switch {
	case errors.Is(err, ErrCorrupt), errors.Is(err, fs.ErrNotExist):
		b.loader().begin()
		if errors.Is(err, ErrCorrupt) {
			b.ruin("", err.Error())
		}
	case err != nil:
		return nil, err
	}
	return &Inspection{b.Damages(), b}, nil
}

// defect is one with what the error wraps.
type defect struct {
	Damage
	kind error // ErrChecksum, ErrCorrupt, or of a record that a later version wrote
}

func (d *defect) err(path string) error {
	text := fmt.Sprintf("blackboard: %s of %s is damaged", d.What, path)
	if d.Key != "" {
		text += "; set or delete it"
	}
	if d.Copy != "" {
		text += "; as it was found: " + d.Copy
	}
	return fmt.Errorf("%s: %w", text, d.kind)
}

// name says what a record of the file is, for people.
func (r record) name() string {
	switch {
	case r.bucket == bucketValues:
		return "key " + r.key
	case r.bucket == bucketHistory:
		if key, version, ok := splitHistoryKey([]byte(r.key)); ok {
			return fmt.Sprintf("history of %s, version %d", key, version)
		}
	case r.bucket == bucketRequests && len(r.key) == 8:
		return fmt.Sprintf("request %d", binary.BigEndian.Uint64([]byte(r.key)))
	case strings.HasPrefix(r.bucket, journalPrefix) && len(r.key) == 8:
		return fmt.Sprintf("record %d of journal %s", binary.BigEndian.Uint64([]byte(r.key)), r.bucket[len(journalPrefix):])
	case strings.HasPrefix(r.bucket, recordPrefix):
		return fmt.Sprintf("record %s of %s", r.key, r.bucket[len(recordPrefix):])
	}
	return fmt.Sprintf("record %q of %q", r.key, r.bucket)
}

// marked reports whether a mark stays in the file: of what can be written anew
// under its name, which is how a mark goes.
func (r record) marked() bool {
	return r.bucket == bucketValues || strings.HasPrefix(r.bucket, recordPrefix)
}

// Damaged gives the error of a key whose stored value is not what had been
// written; it wraps ErrChecksum. It stands, over restarts too, until somebody
// sets or deletes the key. Until then [Board.Get] finds nothing.
func (b *Board) Damaged(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.damageOf(key)
}

// damageOf is Damaged for who holds mu.
func (b *Board) damageOf(key string) error {
	if d := b.damaged[record{bucketValues, key}]; d != nil {
		return d.err(b.opt.Path)
	}
	return nil
}

// Damages lists all that is known to be damaged: keys and records that nobody
// has written anew, and what was found since the board was opened.
func (b *Board) Damages() []Damage {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Clone(b.ruins)
	for _, d := range b.damaged {
		list = append(list, d.Damage)
	}
	slices.SortFunc(list, func(x, y Damage) int {
		return cmp.Or(strings.Compare(x.What, y.What), x.Time.Compare(y.Time))
	})
	return list
}

// maxRuins bounds what is remembered of damaged files.
const maxRuins = 16

// ruin notes a file that was moved aside.
func (b *Board) ruin(aside, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.ruins) < maxRuins {
		b.ruins = append(b.ruins, Damage{What: "the file", Error: text, Copy: aside, Time: time.Now().UTC()})
	}
}

// Damaged gives the error of a record that is not what had been written; it
// stands until somebody writes or deletes the record.
func (r *Records) Damaged(name string) error {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	if d := r.b.damaged[record{recordPrefix + r.ns, name}]; d != nil {
		return d.err(r.b.opt.Path)
	}
	return nil
}

// spoilt notes a record that can't be read.
func (b *Board) spoilt(r record, err error) {
	b.count.checksum.Add(1)
	d := &defect{kind: err}
	d.What, d.Error, d.Time = r.name(), err.Error(), time.Now().UTC()
	if r.bucket == bucketValues {
		d.Key = r.key
	}
	b.damaged[r] = d
	b.found = append(b.found, r)
}

// reportDamage says what reading the file has found, keeps a copy of the file,
// and puts marks in the place of the records.
func (b *Board) reportDamage() {
	if len(b.found) == 0 {
		return
	}
	aside, err := b.copyAside()
	f := map[string]any{"path": b.opt.Path, "error": ErrChecksum.Error(), "copied_to": aside}
	if err != nil {
		f["copy_error"], aside = err.Error(), ""
	}
	var names []any
	b.mu.Lock()
	for _, r := range b.found {
		d := b.damaged[r]
		if d == nil { // written anew already
			continue
		}
		d.Copy = aside
		names = append(names, d.What)
		if err == nil && errors.Is(d.kind, ErrChecksum) { // and not of a later version
			b.later(put{bucket: r.bucket, key: r.key}) // else no snapshot would ever be good again
			if r.marked() {
				b.later(d.mark(r))
			}
		}
	}
	b.found = nil
	b.mu.Unlock()
	f["records"] = names
	b.opt.Log.Error("blackboard has damaged records", "path", b.opt.Path, "records", names, "copied_to", aside)
	b.tell("corrupt", f)
}

// mark is the record of a damage. Its key is that of the damaged record.
func (d *defect) mark(r record) put {
	k := r.bucket + "\x00" + r.key
	body, _ := json.Marshal(d.Damage) // it is made of strings and a time
	return put{bucketDamage, k, sealBytesRecord([]byte(k), body)}
}

// loadMark takes a mark of an earlier process.
func (b *Board) loadMark(k, v []byte) error {
	body, err := unseal(k, v, formatBytes)
	if err != nil {
		return err
	}
	bucket, key, _ := strings.Cut(string(k), "\x00")
	d := &defect{kind: ErrChecksum}
	if err := json.Unmarshal(body, &d.Damage); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	b.damaged[record{bucket, key}] = d
	return nil
}

// mended forgets a damage, since the record is written anew or removed; the
// caller holds mu.
func (b *Board) mended(bucket, key string) {
	if len(b.damaged) == 0 {
		return
	}
	r := record{bucket, key}
	if d := b.damaged[r]; d != nil {
		delete(b.damaged, r)
		if r.marked() {
			b.later(put{bucket: bucketDamage, key: r.bucket + "\x00" + r.key})
		}
	}
}

func (b *Board) marks(puts []put) []put {
	for r, d := range b.damaged {
		if r.marked() && errors.Is(d.kind, ErrChecksum) {
			puts = append(puts, d.mark(r))
		}
	}
	return puts
}
