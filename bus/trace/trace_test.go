package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/bus"
)

func ctx() context.Context { return context.Background() }

func record(t *testing.T, b *bus.Bus, o Options) *Recorder {
	t.Helper()
	r, err := Record(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, dir string) []Line {
	t.Helper()
	lines, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func ExampleNode_Reason() {
	lines := []Line{
		{Seq: 1, Topic: "sensor/lidar", Source: "mqtt"},
		{Seq: 2, Topic: "board/motor", Cause: 1},
		{Seq: 3, Topic: "hw/motor/set", Cause: 2},
	}
	fmt.Println(Build(lines).Last("hw/motor/set").Reason())
	// Output: hw/motor/set because board/motor because sensor/lidar, from mqtt
}

func TestRecordedInOrderWithCauses(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		r := record(t, b, Options{Dir: dir})
		if _, err := b.Handle("a", bus.Queue{}, func(c context.Context, e bus.Event) error {
			_, err := b.Publish(c, "x", "b", 2)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		b.Publish(ctx(), "mqtt", "a", map[string]any{"m": 0.2})
		synctest.Wait()
		if got := read(t, dir); len(got) != 0 {
			t.Errorf("written at once: %v; want one write a window", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		tree := Build(read(t, dir))
		if got, want := tree.Last("b").Reason(), "b because a, from mqtt"; got != want {
			t.Errorf("reason = %q, want %q", got, want)
		}
		var w strings.Builder
		if err := tree.Roots[0].Outline(&w); err != nil {
			t.Fatal(err)
		}
		if got := w.String(); !strings.Contains(got, `a {"m":0.2} (mqtt)`) || !strings.Contains(got, "  b 2 (x)") {
			t.Errorf("outline:\n%s", got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		b.Close(ctx())
	})
}

func TestRingIsBounded(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		r := record(t, b, Options{Dir: dir, Size: 64 << 10, Rate: 1 << 30})
		for i := range 5000 {
			b.Publish(ctx(), "s", "n", i)
			if i%100 == 0 {
				r.Flush()
			}
		}
		r.Close()
		b.Close(ctx())
	})
	var size int64
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, n := range names {
		st, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > 96<<10 || size < 32<<10 {
		t.Errorf("%d bytes in %d files, want about 64 KiB", size, len(names))
	}
	lines := read(t, dir)
	if got := lines[len(lines)-1].Seq; got != 5000 {
		t.Errorf("last event is %d, want 5000", got)
	}
	for i := 1; i < len(lines); i++ {
		if lines[i].Seq != lines[i-1].Seq+1 {
			t.Fatalf("%d comes after %d", lines[i].Seq, lines[i-1].Seq)
		}
	}
}

func TestOldSegmentsGo(t *testing.T) {
	dir := t.TempDir()
	for i, age := range []time.Duration{time.Hour, time.Minute} {
		path := filepath.Join(dir, fmt.Sprintf("%08d.jsonl", i+1))
		if err := os.WriteFile(path, []byte("{\"seq\":1,\"topic\":\"x\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	b := bus.New(bus.Options{})
	r := record(t, b, Options{Dir: dir})
	b.Publish(ctx(), "s", "x", nil)
	r.Close()
	b.Close(ctx())
	names, err := list(dir)
	if err != nil || len(names) != 2 || names[0] != "00000002.jsonl" || names[1] != "00000003.jsonl" {
		t.Errorf("segments %v, %v; want 2 and 3", names, err)
	}
}

func TestStormIsCountedNotWritten(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		r := record(t, b, Options{Dir: dir, Rate: 1, Payload: 64 << 10, Size: 64 << 20})
		big := strings.Repeat("x", 32<<10)
		for range 200 { // 6 MiB, with 2 MiB of budget
			b.Publish(ctx(), "s", "big", big)
		}
		r.Close()
		if s := r.Stats(); s.Lost < 100 || s.Recorded+s.Lost != 200 {
			t.Errorf("stats %+v; want most of 200 lost and all counted", s)
		}
		b.Close(ctx())
	})
}

func TestLongPayloadIsCut(t *testing.T) {
	dir := t.TempDir()
	b := bus.New(bus.Options{})
	r := record(t, b, Options{Dir: dir, Payload: 100})
	b.Publish(ctx(), "s", "big", strings.Repeat("x", 500))
	r.Close()
	b.Close(ctx())
	l := read(t, dir)[0]
	if l.Cut != 502 || l.Payload != nil || l.Text(60) != "… 502 bytes" {
		t.Errorf("line %+v, text %q", l, l.Text(60))
	}
}

// What is wrong is not what is left out of a line.
func TestTextTellsWhatIsWrong(t *testing.T) {
	for _, c := range [][2]string{
		{`{"at":"plan → drive","guardrail":"fence","ok":false,"run":"20261121T112628.749-1e07b1ee","violation":"too far"}`, `{"violation":"too far","at":"plan → drive","guardrail":"fe…`},
		{`{"edge":"e2","run":"20261121T112628.749-1e07b1ee","to":"say"}`, `{"edge":"e2","to":"say","run":"20261121T112628.749-1e07b1ee"…`},
		{`{"run":"r","b":1}`, `{"run":"r","b":1}`},
		{`["` + strings.Repeat("x", 70) + `"]`, `["` + strings.Repeat("x", 58) + `…`},
		{`{"a":` + strings.Repeat("x", 70), `{"a":` + strings.Repeat("x", 55) + `…`},
	} {
		l := Line{Payload: json.RawMessage(c[0])}
		if got := l.Text(60); got != c[1] {
			t.Errorf("%s:\ngot  %s\nwant %s", c[0], got, c[1])
		}
	}
}

func TestUnwritableFolderIsReportedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		errors := 0
		b.Tap(bus.ErrorTopic, func(bus.Event) { errors++ })
		r := record(t, b, Options{Dir: filepath.Join(file, "trace")})
		for range 3 {
			b.Publish(ctx(), "s", "x", nil)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		if errors != 1 || r.Stats().Trouble == "" {
			t.Errorf("%d reports, trouble %q; want one", errors, r.Stats().Trouble)
		}
		r.Close()
		b.Close(ctx())
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"seq":1,"topic":"a","cause":2}` + "\n" + `{"seq":2,"topic":"b","cause":1}` + "\n{"))
	f.Add([]byte(`{"seq":3,"topic":"a","cause":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		tree := Build(Parse(text))
		n := 0
		var w strings.Builder
		for _, r := range tree.Roots {
			r.Outline(&w)
			count(r, &n)
		}
		if n != tree.Len() {
			t.Errorf("%d nodes below the roots, want %d", n, tree.Len())
		}
	})
}

func count(n *Node, total *int) {
	*total++
	for _, c := range n.Then {
		count(c, total)
	}
}
