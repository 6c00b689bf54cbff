package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A robot is killed while 40 messages of QoS 1 wait for a slow handler. With
// durable = true each is handled in one of its lives, without a broker that
// sends it again; those of the life before come as queued. Without it most are
// gone: that is what the setting is for.
func TestKilledWithMessages(t *testing.T) {
	for _, durable := range []bool{true, false} {
		t.Run(fmt.Sprint("durable ", durable), func(t *testing.T) {
			m := startMosquitto(t)
			const n = 40
			dir := folder(t, map[string]string{
				"edged.toml": fmt.Sprintf(`name = "crab"
[allow]
all = true
[mqtt]
url = %q
[[mqtt.subscribe]]
filter = "job/#"
qos = 1
durable = %v
`, m.url(), durable),
				"main.star": `
def work(ev, ctx):
    ctx.sleep("200ms")
    store.append("done", "%d %s\n" % (ev["n"], ev.queued))
on("job/#", work)
`,
			})
			done := func() (count map[string]int, queued int) {
				count = map[string]int{}
				text, err := os.ReadFile(filepath.Join(dir, ".edged", "store", "done"))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				for l := range strings.Lines(string(text)) {
					f := strings.Fields(l)
					count[f[0]]++
					if f[1] == "True" {
						queued++
					}
				}
				return count, queued
			}
			r := start(t, dir, "run", dir)
			r.connected()
			send := client(t, m.url())
			for i := range n {
				send(fmt.Sprint("job/", i%3), fmt.Sprintf(`{"n": %d}`, i))
			}
			r.until("all messages with the robot, some handled", 30*time.Second, func() bool {
				count, _ := done()
				in, _ := r.edged("status", "--json")
				return len(count) >= 3 && (durable || strings.Contains(in, fmt.Sprintf(`"in": %d`, n)))
			})
			r.end(syscall.SIGKILL)
			before, _ := done()
			if len(before) >= n {
				t.Fatalf("all %d were handled before the kill: nothing was tested", n)
			}

			r = start(t, dir, "run", dir)
			r.connected()
			if !durable {
				send("job/0", `{"n": 1000}`)
				r.until("a new one is handled", 30*time.Second, func() bool { count, _ := done(); return count["1000"] == 1 })
				if count, _ := done(); len(count) > n {
					t.Errorf("%d of %d are there without durable: this test shows nothing", len(count)-1, n)
				}
				return
			}
			r.until("all of them are handled", 30*time.Second, func() bool { count, _ := done(); return len(count) == n })
			_, queued := done()
			if queued < n-len(before) {
				t.Errorf("%d were marked as queued, want at least the %d that were left", queued, n-len(before))
			}
			r.until("the inbox is empty", 20*time.Second, func() bool {
				out, err := r.edged("status", "--json")
				return err == nil && !strings.Contains(out, `"inbox"`)
			})
			runs := func() (sum int) {
				count, _ := done()
				for _, c := range count {
					sum += c
				}
				return sum
			}
			so := runs()
			r.end(syscall.SIGTERM)
			r = start(t, dir, "run", dir)
			r.connected()
			send("job/0", `{"n": 1000}`)
			r.until("a new one is handled", 30*time.Second, func() bool { count, _ := done(); return count["1000"] == 1 })
			if got := runs(); got != so+1 {
				t.Errorf("%d came again after an orderly end, though they had been handled", got-so-1)
			}
			t.Logf("%d before the kill, %d runs for %d messages", len(before), so, n)
		})
	}
}
