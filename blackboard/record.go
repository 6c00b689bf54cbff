package blackboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"edged/bus/origin"
)

// What lies in the file, byte by byte. A sealed record is a format byte, the
// CRC32C of key and body, and the body. The key is part of the sum, so a
// record that turns up under another key is found out too.

const (
	formatValue = 1 // body: version, time, ttl, writer, value
	formatBytes = 2 // body: as the caller gave it
	formatWhose = 3 // body: version, time, ttl, writer, origin, value
	sealBytes   = 5
	maxDepth    = 64
)

var errRecord = errors.New("record is not well formed")

func seal(dst []byte, format byte, key []byte, body func([]byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, format, 0, 0, 0, 0)
	dst = body(dst)
	binary.LittleEndian.PutUint32(dst[at+1:], checksum(format, key, dst[at+sealBytes:]))
	return dst
}

func checksum(format byte, key, body []byte) uint32 {
	t := crc32.MakeTable(crc32.Castagnoli) // the package keeps it
	return crc32.Update(crc32.Update(crc32.Checksum(key, t), t, body), t, []byte{format})
}

func unseal(key, rec []byte, formats ...byte) ([]byte, error) {
	if len(rec) < sealBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrChecksum, len(rec))
	}
	if checksum(rec[0], key, rec[sealBytes:]) != binary.LittleEndian.Uint32(rec[1:]) {
		return nil, ErrChecksum
	}
	if !slices.Contains(formats, rec[0]) {
		return nil, fmt.Errorf("%w: format %d, this version reads %d", errRecord, rec[0], formats)
	}
	return rec[sealBytes:], nil
}

// sealBytesRecord seals bytes of a journal or of named records.
func sealBytesRecord(key, body []byte) []byte {
	return seal(make([]byte, 0, sealBytes+len(body)), formatBytes, key, func(b []byte) []byte { return append(b, body...) })
}

// encode seals the state of a key.
func (s *state) encode(key []byte) []byte {
	format := byte(formatValue) // as ever, where the words are the writer's own
	if s.origin != "" {
		format = formatWhose
	}
	return seal(make([]byte, 0, 64), format, key, func(b []byte) []byte {
		b = binary.AppendUvarint(b, s.version)
		b = binary.AppendVarint(b, s.at)
		b = binary.AppendUvarint(b, uint64(s.ttl))
		b = appendText(b, s.writer)
		if s.origin != "" {
			b = appendText(b, string(s.origin))
		}
		return appendValue(b, s.value)
	})
}

func decodeState(key, rec []byte) (state, error) {
	body, err := unseal(key, rec, formatValue, formatWhose)
	if err != nil {
		return state{}, err
	}
	r := reader{b: body}
	s := state{present: true, keep: true}
	s.version = r.uvarint()
	s.at = r.varint()
	s.ttl = time.Duration(r.uvarint())
	s.writer = r.text()
	if rec[0] == formatWhose {
		s.origin = origin.Parse(r.text())
	}
	s.value = r.value(0)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes too many", len(r.b))
	}
	if r.err == nil && s.ttl < 0 {
		r.fail("negative ttl")
	}
	return s, r.err
}

// The value's tags. Numbers keep their kind: 1 and 1.0 are different values.
const (
	tagNil = iota
	tagFalse
	tagTrue
	tagInt
	tagFloat
	tagText
	tagBytes
	tagList
	tagMap
)

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendValue writes a JSON tree; maps in key order, so equal values are equal bytes.
func appendValue(b []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, tagNil)
	case bool:
		if x {
			return append(b, tagTrue)
		}
		return append(b, tagFalse)
	case int64:
		return binary.AppendVarint(append(b, tagInt), x)
	case float64:
		return binary.LittleEndian.AppendUint64(append(b, tagFloat), math.Float64bits(x))
	case string:
		return appendText(append(b, tagText), x)
	case []byte:
		return append(binary.AppendUvarint(append(b, tagBytes), uint64(len(x))), x...)
	case []any:
		b = binary.AppendUvarint(append(b, tagList), uint64(len(x)))
		for _, e := range x {
			b = appendValue(b, e)
		}
		return b
	case map[string]any:
		b = binary.AppendUvarint(append(b, tagMap), uint64(len(x)))
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			b = appendValue(appendText(b, k), x[k])
		}
		return b
	}
	panic(fmt.Sprintf("blackboard: a %T is no JSON value", v)) // values are frozen before they are stored
}

// reader takes a body apart; after the first error it gives zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", errRecord, fmt.Sprintf(format, a...))
	}
	r.b = nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("cut in a number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("cut in a number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.err != nil {
		return nil
	}
	if n > uint64(len(r.b)) {
		r.fail("%d bytes announced, %d left", n, len(r.b))
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string { return string(r.bytes()) }

func (r *reader) value(depth int) any {
	if r.err != nil {
		return nil
	}
	if len(r.b) == 0 || depth > maxDepth {
		r.fail("cut, or more than %d levels deep", maxDepth)
		return nil
	}
	tag := r.b[0]
	r.b = r.b[1:]
	switch tag {
	case tagNil:
		return nil
	case tagFalse, tagTrue:
		return tag == tagTrue
	case tagInt:
		return r.varint()
	case tagFloat:
		if len(r.b) < 8 {
			r.fail("cut in a float")
			return nil
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(r.b))
		r.b = r.b[8:]
		return f
	case tagText:
		return r.text()
	case tagBytes:
		return append([]byte{}, r.bytes()...)
	case tagList, tagMap:
		return r.container(tag, depth)
	}
	r.fail("unknown tag %d", tag)
	return nil
}

func (r *reader) container(tag byte, depth int) any {
	n := r.uvarint()
	if n > uint64(len(r.b)) { // every element takes a byte at least
		r.fail("%d elements announced, %d bytes left", n, len(r.b))
		return nil
	}
	if tag == tagList {
		l := make([]any, 0, min(n, 1024))
		for range n {
			l = append(l, r.value(depth+1))
			if r.err != nil {
				return nil
			}
		}
		return l
	}
	m := make(map[string]any, min(n, 1024))
	for last := ""; uint64(len(m)) < n; {
		k := r.text()
		if r.err == nil && len(m) > 0 && k <= last {
			r.fail("keys out of order")
		}
		last = k
		m[k] = r.value(depth + 1)
		if r.err != nil {
			return nil
		}
	}
	return m
}
