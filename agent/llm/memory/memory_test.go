package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent/llm/memory"
	"edged/blackboard"
	"edged/bus"
)

// shelf is a store in memory that can fail.
type shelf struct {
	mu   sync.Mutex
	recs map[string][]byte
	err  error
	sync []string // names put with sync
}

func newShelf() *shelf { return &shelf{recs: map[string][]byte{}} }

func (s *shelf) Put(_ context.Context, name string, v []byte, sync bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if sync {
		s.sync = append(s.sync, name)
	}
	s.recs[name] = bytes.Clone(v)
	return nil
}

func (s *shelf) Get(name string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.recs[name]
	return v, ok
}

func (s *shelf) Delete(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	delete(s.recs, name)
	return nil
}

func (s *shelf) All() iter.Seq2[string, []byte] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.All(maps.Clone(s.recs))
}

func open(t *testing.T, s memory.Store, o memory.Options) *memory.Memory {
	t.Helper()
	m, err := memory.Open(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func Example() {
	ctx := context.Background()
	hub := bus.New(bus.Options{})
	defer hub.Close(ctx)
	board, err := blackboard.Open(hub, blackboard.Options{})
	if err != nil {
		panic(err)
	}
	defer board.Close()

	m, err := memory.Open(ctx, board.Records("memory"), memory.Options{})
	if err != nil {
		panic(err)
	}
	m.Remember(ctx, memory.Fact{Key: "cup", Value: "on the kitchen table"})
	m.Remember(ctx, memory.Fact{Key: "dock", Value: "in the hall"})
	hits, _ := m.Recall(ctx, memory.Query{Text: "where is the cup"})
	for _, h := range hits {
		fmt.Println(h.Text())
	}
	// Output: cup: on the kitchen table
}

func TestRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, newShelf(), memory.Options{})
		for i, f := range []memory.Fact{
			{Key: "cup", Value: "on the kitchen table", Tags: []string{"things", "dishes"}},
			{Key: "book", Value: "on the shelf in the bedroom", Tags: []string{"things"}},
			{Key: "anna birthday", Value: "the fourth of May", Scope: "people"},
			{Key: "wifi", Value: map[string]any{"name": "upstairs", "channel": int64(6)}},
			{Key: "old table", Value: "in the cellar with the kitchen table", Until: time.Now().Add(30 * time.Second)},
		} {
			if i > 0 {
				time.Sleep(time.Minute)
			}
			if f.Until.IsZero() || f.Until.After(time.Now()) {
				must[memory.Fact](t)(m.Remember(t.Context(), f))
			} else {
				f.From = f.Until.Add(-time.Minute)
				must[memory.Fact](t)(m.Remember(t.Context(), f))
			}
		}
		for _, row := range []struct {
			q    memory.Query
			want string
		}{
			{memory.Query{}, "wifi, anna birthday, book, cup"},
			{memory.Query{Limit: 2}, "wifi, anna birthday"},
			{memory.Query{Scope: "people"}, "anna birthday"},
			{memory.Query{Tags: []string{"Things"}}, "book, cup"},
			{memory.Query{Tags: []string{"things", "dishes"}}, "cup"},
			{memory.Query{Since: time.Now().Add(-2 * time.Minute)}, "wifi, anna birthday"},
			{memory.Query{Text: "where is the cup"}, "cup"},
			{memory.Query{Text: "kitchen table"}, "cup"}, // what is over does not hide it
			{memory.Query{Text: "when is anna's birthday"}, "anna birthday"},
			{memory.Query{Text: "birthday of anna", Scope: "home"}, ""},
			{memory.Query{Text: "quantum physics"}, ""},
			{memory.Query{Key: "nothing"}, ""},
			{memory.Query{Key: "book", Text: "shelf"}, "book"},
		} {
			var got []string
			for _, h := range must[[]memory.Hit](t)(m.Recall(t.Context(), row.q)) {
				got = append(got, h.Key)
			}
			if s := strings.Join(got, ", "); s != row.want {
				t.Errorf("%+v: got %q, want %q", row.q, s, row.want)
			}
		}
		wifi := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Key: "wifi"}))
		if want := (map[string]any{"name": "upstairs", "channel": int64(6)}); !reflect.DeepEqual(wifi[0].Value, want) {
			t.Errorf("got %#v, want %#v", wifi[0].Value, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := m.Recall(ctx, memory.Query{Text: "cup"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
	})
}

// Names that a model chose lead nowhere.
func TestNames(t *testing.T) {
	s := newShelf()
	m := open(t, s, memory.Options{})
	for _, bad := range []string{"", "../x", "..", ".", ".hidden", "a/b", `a\b`, "/etc/passwd", "a\x00b", "a\nb", " a", "a ", "\xff", strings.Repeat("x", 200), "a\u202eb", "fact/home/cup"} {
		for what, err := range map[string]error{
			"fact":       second(m.Remember(t.Context(), memory.Fact{Key: bad, Value: 1})),
			"tag":        second(m.Remember(t.Context(), memory.Fact{Key: "k", Value: 1, Tags: []string{bad}})),
			"note":       m.Note(t.Context(), "", bad, "x"),
			"preference": m.Prefer(t.Context(), "anna", bad, 1),
			"who":        m.Prefer(t.Context(), bad, "k", 1),
			"forget":     m.Forget(t.Context(), "", bad),
			"erase":      m.Erase(t.Context(), "", bad),
		} {
			if !errors.Is(err, memory.ErrName) {
				t.Errorf("%s %q: got error %v, want one that wraps %q", what, bad, err, memory.ErrName)
			}
		}
	}
	if len(s.recs) != 0 {
		t.Errorf("the store holds %v, want nothing", s.recs)
	}
	for _, good := range []string{"cup", "anna's favourite colour", "größe", "agent:butler", "v1.2", "50 %", "a+b#c", "杯子"} {
		if _, err := m.Remember(t.Context(), memory.Fact{Scope: good, Key: good, Value: good}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestBounds(t *testing.T) {
	m := open(t, newShelf(), memory.Options{Facts: 2, Versions: 3, Notes: 1, NoteSize: 20})
	for i := range 5 {
		must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "a", Value: i}))
	}
	if h := m.History(t.Context(), "", "a"); len(h) != 3 || h[2].Value != int64(4) {
		t.Errorf("history is %v, want the last three", h)
	}
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "b", Value: 1}))
	if _, err := m.Remember(t.Context(), memory.Fact{Key: "c", Value: 1}); !errors.Is(err, memory.ErrFull) {
		t.Errorf("got error %v, want %v", err, memory.ErrFull)
	}
	if err := m.Erase(t.Context(), "", "b"); err != nil {
		t.Fatal(err)
	}
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "c", Value: 1}))
	for _, v := range []any{strings.Repeat("x", 5000), func() {}} {
		if _, err := m.Remember(t.Context(), memory.Fact{Key: "a", Value: v}); !errors.Is(err, memory.ErrValue) {
			t.Errorf("got error %v, want %v", err, memory.ErrValue)
		}
	}
	for i := range 9 {
		if err := m.Note(t.Context(), "", "log", fmt.Sprint("line ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.GetNote(t.Context(), "", "log"); got != "line 7\nline 8\n" {
		t.Errorf("the note is %q, want the newest lines", got)
	}
	if err := m.Note(t.Context(), "", "more", "x"); !errors.Is(err, memory.ErrFull) {
		t.Errorf("got error %v, want %v", err, memory.ErrFull)
	}
	if err := m.SetNote(t.Context(), "", "log", ""); err != nil || len(m.Notes(t.Context(), "")) != 0 {
		t.Errorf("notes %v and error %v, want none", m.Notes(t.Context(), ""), err)
	}
}

// What can't be read is counted, kept, and in nobody's way.
func TestDamage(t *testing.T) {
	s := newShelf()
	m := open(t, s, memory.Options{})
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: "hall"}))
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "book", Value: "shelf"}))
	must[memory.Episode](t)(m.Happened(t.Context(), memory.Episode{Task: "x"}))
	m.Note(t.Context(), "", "n", "x")
	for name := range s.recs {
		if !strings.Contains(name, "book") {
			s.recs[name] = []byte("\xffgarbage of " + name)
		}
	}
	s.recs["who knows"] = []byte("{}")
	s.recs["fact/home/other"] = s.recs["fact/home/book"] // of another name
	m = open(t, s, memory.Options{})
	if got, want := m.Status(), (memory.Status{Facts: 1, Damaged: 5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: "kitchen"}))
	if err := m.Note(t.Context(), "", "n", "y"); err != nil {
		t.Fatal(err)
	}
	must[memory.Episode](t)(m.Happened(t.Context(), memory.Episode{Task: "y"}))
	for _, name := range []string{"fact/home/cup", "note/home/n"} {
		if got, want := string(s.recs["aside/"+name]), "\xffgarbage of "+name; got != want {
			t.Errorf("%s was set aside as %q, want %q", name, got, want)
		}
	}
	for range 2 {
		if got, want := m.Status(), (memory.Status{Facts: 2, Episodes: 1, Notes: 1, Damaged: 5}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		m = open(t, s, memory.Options{})
	}
}

// On an error nothing has changed.
func TestStoreFails(t *testing.T) {
	s := newShelf()
	m := open(t, s, memory.Options{})
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: "hall"}))
	s.err = errors.New("disk full")
	for what, err := range map[string]error{
		"remember": second(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: "kitchen"})),
		"new":      second(m.Remember(t.Context(), memory.Fact{Key: "new", Value: 1})),
		"forget":   m.Forget(t.Context(), "", "cup"),
		"erase":    m.Erase(t.Context(), "", "cup"),
		"prefer":   m.Prefer(t.Context(), "anna", "volume", 0.3),
		"note":     m.Note(t.Context(), "", "n", "x"),
		"episode":  second(m.Happened(t.Context(), memory.Episode{Task: "x"})),
	} {
		if !errors.Is(err, s.err) {
			t.Errorf("%s: got error %v, want one that wraps %v", what, err, s.err)
		}
	}
	if got, want := m.Status(), (memory.Status{Facts: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{})); len(hits) != 1 || hits[0].Value != "hall" {
		t.Errorf("got %v, want the cup in the hall", hits)
	}
}

func TestPreferences(t *testing.T) {
	s := newShelf()
	m := open(t, s, memory.Options{})
	for k, v := range map[string]any{"volume": 0.3, "language": "en"} {
		if err := m.Prefer(t.Context(), "anna", k, v); err != nil {
			t.Fatal(err)
		}
	}
	m.Prefer(t.Context(), "annabel", "volume", 1)
	if err := m.ForgetPreference(t.Context(), "anna", "language"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := m.Preferences(t.Context(), "anna"); !reflect.DeepEqual(got, map[string]any{"volume": 0.3}) {
			t.Errorf("got %v, want the volume", got)
		}
		if v, ok := m.Preference(t.Context(), "annabel", "volume"); !ok || v != int64(1) {
			t.Errorf("got %v, want 1", v)
		}
		if hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{})); len(hits) != 0 {
			t.Errorf("got facts %v, want none", hits)
		}
		m = open(t, s, memory.Options{})
	}
}

func TestEpisodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		m := open(t, s, memory.Options{Episodes: 3})
		start := time.Now()
		for i, task := range []string{"go to the dock", "water the plants", "fetch the cup", "go to the kitchen", "tell a joke"} {
			must[memory.Episode](t)(m.Happened(t.Context(), memory.Episode{Task: task, Agent: []string{"a", "b"}[i%2], Outcome: "done", Tags: []string{fmt.Sprint(i)}}))
			time.Sleep(time.Minute)
		}
		tasks := func(q memory.EpisodeQuery) (out []string) {
			for _, e := range must[[]memory.Episode](t)(m.Episodes(t.Context(), q)) {
				out = append(out, e.Task)
			}
			return out
		}
		for range 2 {
			for _, row := range []struct {
				q    memory.EpisodeQuery
				want []string
			}{
				{memory.EpisodeQuery{}, []string{"tell a joke", "go to the kitchen", "fetch the cup"}},
				{memory.EpisodeQuery{Limit: 1}, []string{"tell a joke"}},
				{memory.EpisodeQuery{Agent: "b"}, []string{"go to the kitchen"}},
				{memory.EpisodeQuery{Tag: "2"}, []string{"fetch the cup"}},
				{memory.EpisodeQuery{Outcome: "failed"}, nil},
				{memory.EpisodeQuery{Until: start.Add(3 * time.Minute)}, []string{"fetch the cup"}},
				{memory.EpisodeQuery{Text: "did you go to the kitchen"}, []string{"go to the kitchen"}},
			} {
				if got := tasks(row.q); !slices.Equal(got, row.want) {
					t.Errorf("%+v: got %q, want %q", row.q, got, row.want)
				}
			}
			if len(s.recs) != 3 || len(s.sync) != 0 {
				t.Errorf("the store has %d records, %d of them waited for; want 3 and none", len(s.recs), len(s.sync))
			}
			m = open(t, s, memory.Options{Episodes: 3})
		}
		m = open(t, s, memory.Options{Episodes: 1}) // fewer than there are
		e := must[memory.Episode](t)(m.Happened(t.Context(), memory.Episode{Task: strings.Repeat("ä", 1000)}))
		if e.ID != 6 || len(e.Task) != 1024 || len(s.recs) != 1 || m.Status().Episodes != 1 {
			t.Errorf("episode %d of %d bytes, %d records; want number 6, cut, alone", e.ID, len(e.Task), len(s.recs))
		}
	})
}

// On the blackboard's file, closed and opened again.
func TestOnBoard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board.db")
	with := func(do func(m *memory.Memory)) {
		hub := bus.New(bus.Options{})
		defer hub.Close(context.Background())
		b, err := blackboard.Open(hub, blackboard.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		do(open(t, b.Records("memory"), memory.Options{}))
	}
	long := strings.Repeat("+", 144)
	with(func(m *memory.Memory) {
		must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "cup", Value: "hall"}))
		must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Scope: long, Key: long, Value: nil}))
		must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Key: "secret", Value: "x"}))
		if err := m.Erase(t.Context(), "", "secret"); err != nil {
			t.Fatal(err)
		}
		must[memory.Episode](t)(m.Happened(t.Context(), memory.Episode{Task: "x"}))
		if err := m.Note(t.Context(), "", "n", "line"); err != nil {
			t.Fatal(err)
		}
	})
	with(func(m *memory.Memory) {
		if got, want := m.Status(), (memory.Status{Facts: 2, Episodes: 1, Notes: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if hits := must[[]memory.Hit](t)(m.Recall(t.Context(), memory.Query{Scope: long, Key: long})); len(hits) != 1 || hits[0].Value != nil {
			t.Errorf("got %v, want one of nil", hits)
		}
	})
}

func TestTools(t *testing.T) {
	m := open(t, newShelf(), memory.Options{})
	must[memory.Fact](t)(m.Remember(t.Context(), memory.Fact{Scope: "agent:other", Key: "plan", Value: "secret plan"}))
	call := map[string]func(context.Context, json.RawMessage) (json.RawMessage, error){}
	for _, tool := range m.Tools(memory.ToolOptions{By: "agent:butler"}) {
		if !json.Valid(tool.Params) {
			t.Errorf("%s: the schema is no JSON: %s", tool.Name, tool.Params)
		}
		call[tool.Name] = tool.Do
	}
	since := time.Now().UTC().Format("2006-01-02 15:04")
	for _, row := range []struct{ tool, args, want string }{
		{"recall", `{"about":"cup"}`, `{"facts":[],"note":"nothing is known about that"}`},
		{"remember", `{"key":"cup","value":"it is in the hall"}`, `{"remembered":"cup"}`},
		{"recall", `{"about":"cup"}`, `{"facts":[{"key":"cup","value":"it is in the hall","since":"…"}]}`},
		{"recall", `{"about":"is the cup in the hall"}`, `{"facts":[{"key":"cup","value":"it is in the hall","since":"…"}]}`},
		{"recall", `{"about":"secret plan"}`, `{"facts":[],"note":"nothing is known about that"}`},
		{"forget", `{"key":"plan"}`, `{"forgotten":false,"note":"nothing was known about that"}`},
		{"forget", `{"key":"cup"}`, `{"forgotten":true}`},
		{"recall", `{"about":"cup"}`, `{"facts":[],"note":"nothing is known about that"}`},
		{"remember", `{"key":"../../x","value":"y"}`, `memory: key "../../x": not a name: it begins with a dot`},
		{"remember", `{"key":"x","value":"` + strings.Repeat("y", 201) + `"}`, `memory: value: not a value: 201 characters, at most 200 are allowed`},
	} {
		out, err := call[row.tool](t.Context(), json.RawMessage(row.args))
		got := strings.ReplaceAll(string(out), since, "…")
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", row.tool, row.args, got, row.want)
		}
	}
	if list := m.Tools(memory.ToolOptions{ReadOnly: true}); len(list) != 1 || list[0].Name != "recall" {
		t.Errorf("got %d tools to read only, want recall", len(list))
	}
}

func TestManyAtOnce(t *testing.T) {
	m := open(t, newShelf(), memory.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 20 {
				m.Remember(t.Context(), memory.Fact{Key: fmt.Sprint("k", n%5), Value: fmt.Sprint(i, n)})
				m.Happened(t.Context(), memory.Episode{Task: "x"})
				m.Note(t.Context(), "", "n", "line")
				m.Recall(t.Context(), memory.Query{Text: "k1"})
				m.Episodes(t.Context(), memory.EpisodeQuery{Text: "x"})
			}
		})
	}
	wg.Wait()
	if s := m.Status(); s.Facts != 5 || s.Episodes != 160 || strings.Count(m.GetNote(t.Context(), "", "n"), "\n") != 160 {
		t.Errorf("got %+v, want 5 facts, 160 episodes and as many lines", s)
	}
}

func BenchmarkRecall(b *testing.B) {
	m, err := memory.Open(b.Context(), newShelf(), memory.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		m.Remember(b.Context(), memory.Fact{Key: fmt.Sprint("thing ", i), Value: fmt.Sprint("on shelf ", i%7, " of the cellar"), Tags: []string{fmt.Sprint("t", i%10)}})
	}
	for _, row := range []struct {
		name string
		q    memory.Query
	}{
		{"key", memory.Query{Scope: "home", Key: "thing 500"}},
		{"tag", memory.Query{Tags: []string{"t3"}}},
		{"text", memory.Query{Text: "where is thing 77"}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				if hits, err := m.Recall(b.Context(), row.q); err != nil || len(hits) == 0 {
					b.Fatal(hits, err)
				}
			}
		})
	}
}
