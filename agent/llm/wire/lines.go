package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine is the longest line a server may send, in bytes.
const MaxLine = 1 << 20

// ErrLine is a line longer than MaxLine.
var ErrLine = errors.New("a line of the answer is too long")

// Lines reads an answer line by line. It starts with 4 KiB and grows to what
// the longest line needs, so that many answers at once cost little.
type Lines struct {
	r    *bufio.Reader
	long []byte // a line that didn't fit the reader's buffer
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 4<<10)} }

// Next gives the next line without its end and without blanks around it; it
// holds until the call after. Lines without anything are left out. At the end
// it gives io.EOF; a last line without its end is still a line.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.line()
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || err == io.EOF) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *Lines) line() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil && len(l.long) == 0 {
			return part, nil
		}
		if len(l.long)+len(part) > MaxLine {
			return nil, ErrLine
		}
		l.long = append(l.long, part...)
		if err != bufio.ErrBufferFull {
			return l.long, err
		}
	}
}
