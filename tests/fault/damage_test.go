package fault

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edged/blackboard"
	"edged/bus"
)

// The ways to damage a file. Each is made from the seed file by numbers alone,
// so that the same corpus comes out on every machine.

const (
	seedKeys = 300
	page     = 4096
)

// seedFile holds three generations of one file: what each holds differs in
// "gen". It is kept because bbolt lays out its pages in a random order, and
// because files made by earlier versions must open too. EDGED_FAULT_SEEDS=write
// makes it anew when the format has changed.
const seedFile = "testdata/seeds.gz"

func seeds(t *testing.T) (out [3][]byte) {
	t.Helper()
	if os.Getenv(envSeeds) == "write" {
		writeSeeds(t)
	}
	f, err := os.Open(seedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(z).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func writeSeeds(t *testing.T) {
	t.Helper()
	var text bytes.Buffer
	z, err := gzip.NewWriterLevel(&text, gzip.BestCompression)
	if err == nil {
		err = gob.NewEncoder(z).Encode(makeSeeds(t, ram(t)))
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(seedFile), 0o755)
	}
	if err == nil {
		err = os.WriteFile(seedFile, text.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func makeSeeds(t *testing.T, dir string) (out [3][]byte) {
	b := bus.New(bus.Options{})
	defer b.Close(context.Background())
	path := filepath.Join(dir, "seed.db")
	board, err := blackboard.Open(b, blackboard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer board.Close()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(board.Declare("h", blackboard.Rule{History: 20}))
	log, err := board.Journal("log", blackboard.JournalOptions{})
	must(err)
	for gen := range 3 {
		all := map[string]any{}
		for i := range seedKeys {
			all[fmt.Sprintf("k/%03d", i)] = seedValue(gen, i)
		}
		must(board.Update(ctx, "seed", all, blackboard.SetOptions{Mode: blackboard.Sync}))
		for i := range 20 {
			_, err := board.Set(ctx, "seed", "h", int64(gen*20+i), blackboard.SetOptions{})
			must(err)
			_, err = log.Append(fmt.Appendf(nil, "record %d of %d", i, gen))
			must(err)
			_, err = board.Post(ctx, "seed", "work", int64(i), blackboard.PostOptions{Durable: true})
			must(err)
			must(board.Records("room").Put(ctx, fmt.Sprint(i), []byte("note"), true))
		}
		_, err := board.Set(ctx, "seed", "last", true, blackboard.SetOptions{Mode: blackboard.Sync})
		must(err)
		name := filepath.Join(dir, fmt.Sprint(gen))
		must(board.Backup(ctx, name))
		out[gen], err = os.ReadFile(name)
		must(err)
	}
	return out
}

// seedValue is mostly small; every 40th value takes pages of its own.
func seedValue(gen, i int) map[string]any {
	n := 3 + i%17
	if i%40 == 0 {
		n = 2000
	}
	text := strings.Repeat(fmt.Sprintf("%d.%d ", gen, i), n)
	return map[string]any{"gen": int64(gen), "i": int64(i), "text": text, "sum": int64(crc32.ChecksumIEEE([]byte(text)))}
}

// generation tells which generation a value is of; -1: it is wrong.
func generation(i int, v any) int {
	m, _ := v.(map[string]any)
	text, _ := m["text"].(string)
	gen, ok := m["gen"].(int64)
	if !ok || m["i"] != int64(i) || m["sum"] != int64(crc32.ChecksumIEEE([]byte(text))) {
		return -1
	}
	return int(gen)
}

// damage is a kind of damage, done n times with different numbers.
type damage struct {
	name string
	n    int
	do   func(b []byte, rng *rand.Rand, i int) []byte
}

func damages() []damage {
	return []damage{
		{"cut anywhere", 40, func(b []byte, rng *rand.Rand, _ int) []byte { return b[:rng.IntN(len(b))] }},
		{"cut at a page", 20, func(b []byte, rng *rand.Rand, _ int) []byte { return b[:page*rng.IntN(len(b)/page)] }},
		{"cut to a few bytes", 8, func(b []byte, _ *rand.Rand, i int) []byte {
			return b[:[]int{1, 15, 16, 79, 80, 4095, 4097, 8191}[i]]
		}},
		{"page of zeros", 30, func(b []byte, rng *rand.Rand, _ int) []byte { clear(anyPage(b, rng)); return b }},
		{"page of noise", 30, func(b []byte, rng *rand.Rand, _ int) []byte { noise(anyPage(b, rng), rng); return b }},
		{"page of another place", 20, func(b []byte, rng *rand.Rand, _ int) []byte {
			copy(anyPage(b, rng), anyPage(b, rng))
			return b
		}},
		{"sector of zeros", 20, func(b []byte, rng *rand.Rand, _ int) []byte {
			clear(b[sector*rng.IntN(len(b)/sector):][:sector])
			return b
		}},
		{"one bit", 30, func(b []byte, rng *rand.Rand, _ int) []byte { flip(b, rng, 1); return b }},
		{"bits", 20, func(b []byte, rng *rand.Rand, i int) []byte { flip(b, rng, 4<<(i%5)); return b }},
		{"bits in headers", 30, func(b []byte, rng *rand.Rand, _ int) []byte {
			p := livePage(b, rng)
			flip(p[:16+16*4], rng, 1+rng.IntN(3))
			return b
		}},
		{"first meta page", 4, func(b []byte, rng *rand.Rand, _ int) []byte { noise(b[:page], rng); return b }},
		{"second meta page", 4, func(b []byte, rng *rand.Rand, _ int) []byte { noise(b[page:2*page], rng); return b }},
		{"both meta pages", 4, func(b []byte, rng *rand.Rand, _ int) []byte { noise(b[:2*page], rng); return b }},
		{"meta page that lies", 24, func(b []byte, rng *rand.Rand, i int) []byte { lie(b, rng, i); return b }},
		{"page header that lies", 40, func(b []byte, rng *rand.Rand, i int) []byte {
			header(livePage(b, rng), rng, i)
			return b
		}},
		{"page that says it is empty", 12, func(b []byte, rng *rand.Rand, _ int) []byte {
			for {
				if p := livePage(b, rng); binary.LittleEndian.Uint16(p[8:]) == 2 {
					binary.LittleEndian.PutUint16(p[10:], 0)
					return b
				}
			}
		}},
		{"element that lies", 40, func(b []byte, rng *rand.Rand, i int) []byte {
			element(livePage(b, rng), rng, i)
			return b
		}},
		{"noise", 5, func(b []byte, rng *rand.Rand, _ int) []byte {
			b = b[:rng.IntN(len(b))]
			noise(b, rng)
			return b
		}},
		{"something else", 4, func(_ []byte, _ *rand.Rand, i int) []byte {
			return []byte([]string{
				"SQLite format 3\x00" + strings.Repeat("\x00", 5000), "{\"battery\": 0.7}\n", strings.Repeat("\xff", 3*page), "\x1f\x8b\x08" + strings.Repeat("x", page),
			}[i])
		}},
		{"more at the end", 5, func(b []byte, rng *rand.Rand, _ int) []byte {
			more := make([]byte, rng.IntN(3*page))
			noise(more, rng)
			return append(b, more...)
		}},
		{"empty", 4, func([]byte, *rand.Rand, int) []byte { return nil }},
	}
}

func anyPage(b []byte, rng *rand.Rand) []byte { return b[page*rng.IntN(len(b)/page):][:page] }

// livePage gives a page that holds branches, leaves or the free list.
func livePage(b []byte, rng *rand.Rand) []byte {
	for {
		p := anyPage(b, rng)
		switch binary.LittleEndian.Uint16(p[8:]) {
		case 1, 2, 16:
			return p
		}
	}
}

func noise(b []byte, rng *rand.Rand) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

func flip(b []byte, rng *rand.Rand, n int) {
	for range n {
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
}

// lie changes the newer meta page, or both, and makes its checksum right.
func lie(b []byte, rng *rand.Rand, i int) {
	le := binary.LittleEndian
	for _, m := range [][]byte{b[16:], b[page+16:]} {
		other := b[16:]
		if &m[0] == &b[16] {
			other = b[page+16:]
		}
		if i%2 == 0 && le.Uint64(m[48:]) < le.Uint64(other[48:]) {
			continue
		}
		wild := []uint64{0, 1, 2, 3, le.Uint64(m[40:]) - 1, le.Uint64(m[40:]), 1 << 31, 1 << 62, ^uint64(0), uint64(rng.IntN(int(le.Uint64(m[40:]))))}
		v := wild[rng.IntN(len(wild))]
		switch i / 2 % 4 {
		case 0:
			le.PutUint64(m[16:], v) // root
		case 1:
			le.PutUint64(m[32:], v) // free list
		case 2:
			le.PutUint64(m[40:], v) // pages
		case 3:
			le.PutUint32(m[8:], uint32(v)) // page size
		}
		h := fnv.New64a()
		h.Write(m[:56])
		le.PutUint64(m[56:], h.Sum64())
	}
}

// header changes one number of a page's header.
func header(p []byte, rng *rand.Rand, i int) {
	le := binary.LittleEndian
	switch i % 5 {
	case 0:
		le.PutUint64(p, uint64(rng.IntN(400)))
	case 1:
		le.PutUint16(p[8:], []uint16{0, 1, 2, 4, 16, 3, 0xffff}[rng.IntN(7)])
	case 2:
		le.PutUint16(p[10:], []uint16{0, 1, le.Uint16(p[10:]) + 1, 255, 0x7fff, 0xfffe, 0xffff}[rng.IntN(7)])
	case 3:
		le.PutUint32(p[12:], []uint32{1, 2, 255, 1 << 20, 1 << 31, ^uint32(0)}[rng.IntN(6)])
	case 4:
		flip(p[:16], rng, 2)
	}
}

// element changes one number of an element: where its key lies, how long key
// and value are, which page it leads to.
func element(p []byte, rng *rand.Rand, i int) {
	le := binary.LittleEndian
	count := int(le.Uint16(p[10:]))
	e := p[16+16*min(rng.IntN(count+1), 200):][:16]
	switch i % 3 {
	case 0:
		le.PutUint32(e[4*rng.IntN(4):], []uint32{0, 1, 2, 4096, 1 << 16, 1 << 31, ^uint32(0)}[rng.IntN(7)])
	case 1:
		le.PutUint64(e[8:], le.Uint64(p)) // a branch that leads to itself
	case 2:
		le.PutUint32(e[4*rng.IntN(4):], uint32(rng.IntN(page)))
	}
}
