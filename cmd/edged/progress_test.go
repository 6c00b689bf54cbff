package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	for _, x := range []struct {
		name string
		bar  bool
		each time.Duration
		want string
	}{
		{"at once", true, 0, ""},
		{"a terminal", true, 100 * time.Millisecond,
			"\rbackup [#######-----------------------]  25 % of 4.0 MiB" +
				"\rbackup [###############---------------]  50 % of 4.0 MiB" +
				"\rbackup [######################--------]  75 % of 4.0 MiB" +
				"\rbackup [##############################] 100 % of 4.0 MiB\r\x1b[K"},
		{"a file", false, time.Second, "backup: 50 % of 4.0 MiB\nbackup: 100 % of 4.0 MiB\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := &progress{w: &out, unit: mebibytes, bar: x.bar, what: "backup", total: 4 << 20, began: time.Now()}
				for range 4 {
					<-time.After(x.each)
					p.add(1 << 20)
				}
				p.end()
				if got := out.String(); got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
			})
		})
	}
}
