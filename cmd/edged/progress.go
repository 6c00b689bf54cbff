package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"edged/cmd/edged/internal/config"
)

// progress tells how far long work is: a bar on a terminal, a plain line now
// and then elsewhere. Work that is over at once says nothing.
type progress struct {
	w     io.Writer
	bar   bool
	what  string // "backup"
	total int64  // bytes, or what unit says
	done  int64
	began time.Time
	said  time.Time // zero: nothing yet
	unit  func(int64) string
}

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
	barWidth  = 30
)

func (c *cli) progress(what string) *progress {
	f, ok := c.err.(*os.File)
	return &progress{w: c.err, bar: ok && term.IsTerminal(int(f.Fd())), what: what, began: time.Now(), unit: mebibytes}
}

// add notes that n more bytes are done.
func (p *progress) add(n int) {
	p.done += int64(n)
	every := lineEvery
	if p.bar {
		every = barEvery
	}
	last := p.said
	if last.IsZero() {
		last = p.began
	}
	if p.total <= 0 || time.Since(last) < every {
		return
	}
	p.said = time.Now()
	share := float64(min(p.done, p.total)) / float64(p.total)
	if !p.bar {
		fmt.Fprintf(p.w, "%s: %.0f %% of %s\n", p.what, 100*share, p.unit(p.total))
		return
	}
	full := int(share * barWidth)
	fmt.Fprintf(p.w, "\r%s [%s%s] %3.0f %% of %s", p.what, strings.Repeat("#", full), strings.Repeat("-", barWidth-full), 100*share, p.unit(p.total))
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar && !p.said.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func mebibytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return rough(config.Size(n))
}
