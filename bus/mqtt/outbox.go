package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// Outbox keeps messages until the broker has acknowledged them: the
// blackboard's Journal behind a [Spool], or a [Memory].
//
// Append is called on the publisher's goroutine and must return quickly; one
// that waits for the disk makes every publisher wait. Ids grow.
type Outbox interface {
	Append(rec []byte) (id uint64, err error)
	Remove(ids ...uint64) error
	All() iter.Seq2[uint64, []byte]
	Len() int
	Bytes() int64
}

// Memory is an outbox that lasts as long as the process.
type Memory struct {
	mu    sync.Mutex // guards what follows
	last  uint64
	sizes map[uint64]int // the bridge has the messages themselves
	bytes int64
}

var _ Outbox = (*Memory)(nil)

// NewMemory makes an empty outbox.
func NewMemory() *Memory { return &Memory{sizes: map[uint64]int{}} }

// Append keeps a record.
func (m *Memory) Append(rec []byte) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	m.sizes[m.last] = len(rec)
	m.bytes += int64(len(rec))
	return m.last, nil
}

// Remove forgets records.
func (m *Memory) Remove(ids ...uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		m.bytes -= int64(m.sizes[id])
		delete(m.sizes, id)
	}
	return nil
}

// All is empty: a new process finds nothing.
func (m *Memory) All() iter.Seq2[uint64, []byte] { return func(func(uint64, []byte) bool) {} }

// Len is the number of records.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sizes)
}

// Bytes is the size of the records.
func (m *Memory) Bytes() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// A record is: format (1 byte), QoS and retain (1 byte), length of the topic
// (2 bytes), topic, payload.
const recordFormat = 1

var errRecord = errors.New("not an outbox record")

func appendRecord(b []byte, m *message) []byte {
	flags := m.qos
	if m.retain {
		flags |= 4
	}
	b = append(b, recordFormat, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.topic)))
	return append(append(b, m.topic...), m.payload...)
}

// parseRecord copies what it keeps.
func parseRecord(b []byte) (*message, error) {
	if len(b) < 4 || b[0] != recordFormat {
		return nil, fmt.Errorf("mqtt: %w: %d bytes", errRecord, len(b))
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	m := &message{qos: b[1] & 3, retain: b[1]&4 != 0}
	if m.qos == 0 || m.qos == 3 || n == 0 || len(b) < 4+n {
		return nil, fmt.Errorf("mqtt: %w: damaged", errRecord)
	}
	m.topic = string(b[4 : 4+n])
	m.payload = append([]byte(nil), b[4+n:]...)
	return m, nil
}
