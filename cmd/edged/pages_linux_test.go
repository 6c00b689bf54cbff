package main

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCleanMappings(t *testing.T) {
	const text = `00400000-00eb8000 r-xp 00000000 fe:00 77    /opt/edged
Rss:                9632 kB
Anonymous:             0 kB
00eb8000-019db000 r--p 00ab8000 fe:00 77    /opt/edged
Anonymous:             0 kB
019db000-019dc000 r--p 015db000 fe:00 77    /opt/edged
Anonymous:             4 kB
019dc000-01a59000 rw-p 015dc000 fe:00 77    /opt/edged
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 78    /opt/other
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0xeb8000}, {0xeb8000, 0x19db000}}
	if got := cleanMappings([]byte(text), "/opt/edged"); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x: relocated, writable and foreign mappings stay", got, want)
	}
}

func TestDropCode(t *testing.T) {
	resident := func() int {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(string(line(b, "RssFile:")))
		if len(f) < 2 {
			t.Skipf("NOT TESTED: this kernel does not tell RssFile: %s", bytes.TrimSpace(b))
		}
		kb, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		return kb
	}
	was := resident()
	if err := dropCode(); err != nil {
		t.Fatal(err)
	}
	if is := resident(); is >= was {
		t.Errorf("%d kB of files were resident, and %d kB after all was dropped", was, is)
	}
}
