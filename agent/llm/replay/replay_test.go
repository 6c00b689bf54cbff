package replay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edged/agent/llm"
	"edged/agent/llm/llmtest"
	"edged/agent/llm/replay"
)

func Example() {
	ctx := context.Background()
	var file bytes.Buffer
	rec := replay.NewRecorder(replay.NewScript(replay.Say("Done.")), &file, replay.RecorderOptions{Name: "ollama:qwen2.5:1.5b"})
	rec.Chat(ctx, llmtest.Ask("turn left"), nil)

	again, err := replay.Read(&file, "session.jsonl")
	if err != nil {
		panic(err)
	}
	_, err = again.Chat(ctx, llmtest.Ask("turn right"), nil)
	fmt.Println(err)
	a, _ := again.Chat(ctx, llmtest.Ask("turn left"), nil)
	fmt.Println(a.Text, again.Left())
	// Output:
	// replay: session.jsonl: recording has no answer to this request: message 1 (user): recorded "turn left", asked "turn right"
	// Done. 0
}

func ExampleScript() {
	m := replay.NewScript(
		replay.Call("turn", map[string]any{"degrees": 90}).For("left"),
		replay.Say("I turned left."),
	)
	ctx := context.Background()
	a, _ := m.Chat(ctx, llmtest.Ask("turn left"), nil)
	fmt.Printf("%s %s\n", a.Calls[0].Name, a.Calls[0].Args)
	a, _ = m.Chat(ctx, llmtest.Ask("and then?"), nil)
	fmt.Println(a.Text)
	_, err := m.Chat(ctx, llmtest.Ask("once more"), nil)
	fmt.Println(err)
	fmt.Println(len(m.Seen()), "requests")
	// Output:
	// turn {"degrees":90}
	// I turned left.
	// replay: script: recording has no answer to this request: request 3, whose user says "once more", has none of the 0 answers left
	// 3 requests
}

func script() *replay.Script {
	s := replay.NewScript(
		replay.Answer{When: "kitchen", Always: true, Text: "the kitchen is warm and dry"},
		replay.Answer{When: "turn", Always: true, Do: func(_ context.Context, r llm.Request) (llm.Message, error) {
			if len(r.Tools) == 0 || r.Choice == llm.ChoiceNone {
				return llm.Message{Text: "I have no tool for that."}, nil
			}
			return llm.Message{Calls: []llm.Call{{Name: "turn", Args: []byte(`{"degrees":90}`)}}}, nil
		}},
		replay.Answer{When: "form", Always: true, Text: `{"mood": "calm"}`},
		replay.Answer{When: "down", Always: true, Err: &llm.Trouble{Err: fmt.Errorf("test: %w", llm.ErrDown), Model: "test", Remedy: "start it"}},
	)
	s.Vectors(func(text string) []float32 { return []float32{float32(len(text)), float32(text[0]), 1} })
	return s
}

func traits() llmtest.Traits {
	turn := llm.Tool{Name: "turn", Params: []byte(`{"type":"object","properties":{"degrees":{"type":"integer"}}}`)}
	return llmtest.Traits{
		Chat:   llmtest.Ask("tell me about the kitchen"),
		Pieces: true,
		Call:   llmtest.Offer(llmtest.Ask("turn left"), turn),
		Form:   llmtest.Under(llmtest.Ask("fill in the form"), `{"type":"object","required":["mood"],"properties":{"mood":{"enum":["calm","tense"]}}}`),
		Embeds: true,
		Empty:  llm.ErrDiffers,
		Fails:  []llmtest.Failure{{Name: "down", Request: llmtest.Ask("you are down"), Want: llm.ErrDown}},
	}
}

func TestScriptIsModel(t *testing.T) {
	llmtest.Run(t, func(*testing.T) llm.Model { return script() }, traits())
}

func TestRecorderIsModel(t *testing.T) {
	llmtest.Run(t, func(*testing.T) llm.Model {
		return replay.NewRecorder(script(), &bytes.Buffer{}, replay.RecorderOptions{})
	}, traits())
}

// A recording of everything the suite asks, eight times, is a model that
// passes it.
func TestReplayIsModel(t *testing.T) {
	tr := traits()
	var file bytes.Buffer
	rec := replay.NewRecorder(script(), &file, replay.RecorderOptions{Name: "script"})
	no := func(string) error { return nil }
	bare, none := tr.Call, tr.Call
	bare.Tools = nil
	none.Choice = llm.ChoiceNone
	for range 8 {
		for _, r := range []llm.Request{tr.Chat, tr.Call, bare, none, tr.Form, tr.Fails[0].Request} {
			rec.Chat(t.Context(), r, no)
		}
	}
	rec.Describe(t.Context())
	rec.Embed(t.Context(), []string{"drive to the kitchen", "what time is it"})
	llmtest.Run(t, func(t *testing.T) llm.Model {
		m, err := replay.Read(bytes.NewReader(file.Bytes()), "all")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}, tr)
}

// conversation is a chat with a tool call in it. Ids are those of a server
// that draws them by lot.
func conversation(id, last string) llm.Request {
	return llm.Request{
		Messages: []llm.Message{
			{Role: llm.System, Text: "You are the butler of the house. You are brief, polite, and never in doubt."},
			{Role: llm.User, Text: "turn left", Origin: "voice"},
			{Role: llm.Assistant, Thinking: "left it is", Calls: []llm.Call{{ID: id, Name: "turn", Args: []byte(`{"b":1, "a":2}`)}}},
			{Role: llm.ToolRole, CallID: id, Name: "turn", Text: `{"ok":true}`},
			{Role: llm.User, Text: last},
		},
		Tools:    []llm.Tool{{Name: "turn", Doc: "Turn.", Params: []byte(`{"type":"object"}`)}},
		Sampling: llm.Sampling{MaxTokens: 64},
	}
}

// reread records some requests and opens the recording.
func reread(t *testing.T, s *replay.Script, requests ...llm.Request) *replay.Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	rec := replay.NewRecorder(s, f, replay.RecorderOptions{Name: "script"})
	for _, r := range requests {
		rec.Chat(t.Context(), r, func(string) error { return nil })
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := replay.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestExactly(t *testing.T) {
	temp := 0.3
	trouble := &llm.Trouble{Err: fmt.Errorf("ollama: chat: %w: num_predict", llm.ErrCutOff), Model: "m", Remedy: "ask for less"}
	s := replay.NewScript(
		replay.Answer{Pieces: []string{"I ", "turn", "ed."}},
		replay.Answer{Pieces: []string{"half a "}, Err: trouble},
		replay.Say("third"),
		replay.Answer{Calls: []llm.Call{{ID: "x", Name: "turn", Args: []byte(`{"a":1}`)}}},
		replay.Fail(fmt.Errorf("http: %w", context.DeadlineExceeded)),
	)
	a := conversation("77", "and now")
	b := conversation("78", "something else")
	c := conversation("79", "and now")
	c.Temperature = &temp
	m := reread(t, s, a, a, b, c, llmtest.Ask("late"))

	var pieces []string
	say := func(p string) error { pieces = append(pieces, p); return nil }
	again := conversation("other", "something else") // other ids, other order
	again.Messages[1].Origin = "cli"
	again.Messages[2].Thinking = ""
	again.Messages[2].Calls[0].Args = []byte(`{"a":2,"b":1}`)
	if got, err := m.Chat(t.Context(), again, say); err != nil || got.Text != "third" {
		t.Errorf("got %q and error %v, want the third answer", got.Text, err)
	}
	pieces = nil
	got, err := m.Chat(t.Context(), a, say)
	if err != nil || got.Text != "I turned." || !slices.Equal(pieces, []string{"I ", "turn", "ed."}) {
		t.Errorf("got %q in %q and error %v, want the first answer", got.Text, pieces, err)
	}
	pieces = nil
	_, err = m.Chat(t.Context(), a, say)
	if !errors.Is(err, llm.ErrCutOff) || err.Error() != trouble.Error() || !slices.Equal(pieces, []string{"half a "}) {
		t.Errorf("said %q with error %v, want half of it with %v", pieces, err, trouble)
	}
	var tr *llm.Trouble
	if !errors.As(err, &tr) || tr.Remedy != "ask for less" {
		t.Errorf("got %#v, want a trouble with its remedy", err)
	}
	got, err = m.Chat(t.Context(), c, nil)
	if err != nil || len(got.Calls) != 1 || got.Calls[0].ID != "x" || got.Finish != llm.FinishCall {
		t.Errorf("got %+v and error %v, want the call", got, err)
	}
	if _, err = m.Chat(t.Context(), llmtest.Ask("late"), nil); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "http: context deadline exceeded" {
		t.Errorf("got error %v, want the recorded one", err)
	}
	if m.Left() != 0 {
		t.Errorf("%d answers are left, want none", m.Left())
	}
	var d *replay.Differs
	if _, err = m.Chat(t.Context(), a, nil); !errors.As(err, &d) || d.Times != 2 || !errors.Is(err, llm.ErrDiffers) {
		t.Errorf("got error %v, want one that says that it was recorded twice", err)
	}
}

func TestSaysWhatDiffers(t *testing.T) {
	schema := llmtest.Under(llmtest.Ask("form"), `{"type":"object","properties":{"a":{"type":"integer"}}}`)
	for _, row := range []struct {
		name   string
		change func(r *llm.Request)
		want   string
	}{
		{"last message", func(r *llm.Request) { r.Messages[4].Text = "go to the hall" },
			`message 5 (user): recorded "go to the kitchen", asked "go to the hall"`},
		{"inside a long text", func(r *llm.Request) { r.Messages[0].Text = strings.Replace(r.Messages[0].Text, "polite", "rude", 1) },
			`message 1 (system): recorded …"You are brief, polite, and never in doubt.", asked …"You are brief, rude, and never in doubt."`},
		{"role", func(r *llm.Request) { r.Messages[1].Role = llm.System },
			`message 2 (system): recorded "{\"role\":\"user\",\"text\":\"turn left\"}", asked "{\"role\":\"system\",\"text\":\"turn left\"}"`},
		{"arguments", func(r *llm.Request) { r.Messages[2].Calls[0].Args = []byte(`{"a":2,"b":3}`) },
			`message 3 (assistant): recorded …"rgs\":{\"a\":2,\"b\":1}}]}", asked …"rgs\":{\"a\":2,\"b\":3}}]}"`},
		{"fewer", func(r *llm.Request) { r.Messages = r.Messages[:4] },
			`message 5 (user): recorded "go to the kitchen", asked no more messages`},
		{"more", func(r *llm.Request) {
			r.Messages = append(r.Messages, llm.Message{Role: llm.User, Text: "please"})
		}, `message 6 (user): recorded no more messages, asked "please"`},
		{"tools", func(r *llm.Request) { r.Tools = append(r.Tools, llm.Tool{Name: "stop"}) }, `tools: recorded [turn], asked [turn stop]`},
		{"a tool", func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "turn", Doc: "Go."}} },
			`tool turn: recorded …"\":\"turn\",\"doc\":\"Turn.\",\"params\":{\"type\":\"object\"}}", asked …"\":\"turn\",\"doc\":\"Go.\"}"`},
		{"sampling", func(r *llm.Request) { r.MaxTokens = 65 }, `sampling: recorded …"l,\"max_tokens\":64}", asked …"l,\"max_tokens\":65}"`},
		{"schema", func(r *llm.Request) {
			*r = schema
			r.Schema = []byte(strings.Replace(string(schema.Schema), "integer", "number", 1))
		}, `schema: recorded …"\":{\"a\":{\"type\":\"integer\"}},\"type\":\"object\"}", asked …"\":{\"a\":{\"type\":\"number\"}},\"type\":\"object\"}"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := reread(t, replay.NewScript(replay.Say("a"), replay.Say("b")), conversation("1", "go to the kitchen"), schema)
			r := conversation("2", "go to the kitchen")
			row.change(&r)
			_, err := m.Chat(t.Context(), r, nil)
			if !errors.Is(err, llm.ErrDiffers) {
				t.Fatalf("got error %v, want one that wraps %q", err, llm.ErrDiffers)
			}
			_, got, _ := strings.Cut(err.Error(), llm.ErrDiffers.Error()+": ")
			if got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestBadRecordings(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"no JSON":        {"{\n", "replay: f:1: unexpected end of JSON input"},
		"another format": {`{"format":"edged model traffic 9"}`, `replay: f:1: it is "edged model traffic 9", want "edged model traffic 1"`},
		"nothing":        {"\n\n{}", "replay: f:3: neither a format, an info, a request nor an embedding"},
		"vectors":        {`{"embed":{"texts":["a"],"vectors":[]}}`, "replay: f:1: texts and vectors do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := replay.Read(strings.NewReader(row.text), "f"); err == nil || err.Error() != row.want {
				t.Errorf("got  %v\nwant %s", err, row.want)
			}
		})
	}
	if _, err := replay.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got error %v, want one that wraps %v", err, os.ErrNotExist)
	}
	m, err := replay.Read(strings.NewReader(`{"request":{"messages":[{"role":"user","text":"x"}]}}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Chat(t.Context(), llmtest.Ask("x"), nil); !errors.Is(err, llm.ErrDiffers) {
		t.Errorf("got error %v of a line without an answer", err)
	}
}

// full is a disk that takes so many writes.
type full int

func (f *full) Write(b []byte) (int, error) {
	if *f--; *f < 0 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

// A robot goes on when its recording can't.
func TestDiskFull(t *testing.T) {
	disk := full(1)
	var told []error
	rec := replay.NewRecorder(script(), &disk, replay.RecorderOptions{Failed: func(err error) { told = append(told, err) }})
	for range 3 {
		if _, err := rec.Chat(t.Context(), llmtest.Ask("the kitchen"), nil); err != nil {
			t.Errorf("got error %v, want an answer", err)
		}
	}
	if len(told) != 1 || told[0].Error() != "replay: record: disk full" {
		t.Errorf("told %v; want it once", told)
	}
}

func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		s := replay.NewScript(replay.Answer{Text: "slow", Delay: 3 * time.Second})
		replay.NewRecorder(s, &file, replay.RecorderOptions{}).Chat(t.Context(), llmtest.Ask("x"), nil)
		for _, pace := range []bool{false, true} {
			m, err := replay.Read(bytes.NewReader(file.Bytes()), "f")
			if err != nil {
				t.Fatal(err)
			}
			m.Pace = pace
			start := time.Now()
			if _, err := m.Chat(t.Context(), llmtest.Ask("x"), nil); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d != map[bool]time.Duration{true: 3 * time.Second}[pace] {
				t.Errorf("pace %t: it took %v", pace, d)
			}
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	var file bytes.Buffer
	s := replay.NewScript(replay.Answer{Always: true, Text: "Done."})
	r := conversation("1", "go on")
	rec := replay.NewRecorder(s, &file, replay.RecorderOptions{})
	rec.Chat(b.Context(), r, nil)
	b.Run("record", func(b *testing.B) {
		rec := replay.NewRecorder(replay.NewScript(replay.Answer{Always: true, Text: "Done."}), new(nowhere), replay.RecorderOptions{})
		for b.Loop() {
			rec.Chat(b.Context(), r, nil)
		}
	})
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			m, err := replay.Read(bytes.NewReader(file.Bytes()), "f")
			if err != nil {
				b.Fatal(err)
			}
			m.Chat(b.Context(), r, nil)
		}
	})
}

// nowhere takes everything and keeps nothing.
type nowhere struct{}

func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":"edged model traffic 1"}`))
	f.Add([]byte(`{"request":{"messages":[]},"message":{"text":"x"},"pieces":["x"]}`))
	f.Add([]byte(`{"request":{"tools":[{"params":{}}]},"error":{"kinds":["down"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := replay.Read(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		m.Chat(t.Context(), llmtest.Ask("x"), nil)
		m.Chat(t.Context(), llm.Request{}, nil)
	})
}
