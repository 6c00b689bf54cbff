package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func small() Config {
	return Config{Vocab: 320, Dim: 64, Layers: 2, Heads: 2, FF: 96, Ctx: 128, Eps: 1e-5, Theta: 10000}
}

func tiny(t testing.TB) *File {
	t.Helper()
	n, err := New(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	tok := NewTokenizer([]string{"turn left ninety degrees", "turn right", "go to the kitchen", "turn the left light on"}, 320)
	return &File{Net: n, Tokenizer: tok, Name: "tiny", Extra: map[string]string{"edged.known": `{"robot":"tiny"}`}}
}

func bytesOf(t testing.TB, f *File, format Format) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTokenizerRoundTrip(t *testing.T) {
	tok := tiny(t).Tokenizer
	for _, s := range []string{"Go forward 2.5 meters.", "say it's  odd\n\nhé 日本 don't", `{"name":"move","arguments":{"meters":12}}`, "", "   x", "a\r\n b"} {
		if got := tok.Decode(tok.Encode(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		s := strings.ToValidUTF8(rapid.String().Draw(r, "text"), "?")
		if got := tok.Decode(tok.Encode(s)); got != s {
			r.Fatalf("%q came back as %q", s, got)
		}
	})
}

// TestFile: a model read back from its file scores as the one in memory, as far
// as its format is exact.
func TestFile(t *testing.T) {
	f := tiny(t)
	for format, most := range map[Format]float64{F32: 1e-6, F16: 2e-3, Q8: 3e-2} {
		g, err := Read(bytesOf(t, f, format))
		if err != nil {
			t.Fatal(err)
		}
		if len(g.Tokenizer.Tokens) != 320 || len(g.Tokenizer.Merges) != len(f.Tokenizer.Merges) || g.Extra["edged.known"] != f.Extra["edged.known"] || g.Name != "tiny" {
			t.Fatalf("%s: words got lost", format)
		}
		a, b := f.Net.Session(32), g.Net.Session(32)
		for _, id := range f.Tokenizer.Encode("turn left 90 degrees") {
			x, y := a.Step(id), b.Step(id)
			for i := range x {
				if math.Abs(float64(x[i]-y[i])) > most {
					t.Fatalf("%s: score %d: %v and %v", format, i, x[i], y[i])
				}
			}
		}
	}
	if err := f.Write(&bytes.Buffer{}, "q4_k"); err == nil || !strings.Contains(err.Error(), "q4_k") {
		t.Errorf("an unknown format gives %v", err)
	}
}

func TestSessionStartsAnew(t *testing.T) {
	f := tiny(t)
	s := f.Net.Session(8)
	first := append([]float32(nil), s.Step(5)...)
	s.Step(9)
	s.Reset()
	again := s.Step(5)
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("score %d: %v, then %v", i, first[i], again[i])
		}
	}
	for !s.Full() {
		s.Feed(1)
	}
	if s.Len() != 8 {
		t.Errorf("full with %d tokens", s.Len())
	}
}

func TestStepAllocatesNothing(t *testing.T) {
	s := tiny(t).Net.Session(64)
	if n := testing.AllocsPerRun(20, func() { s.Step(7) }); n != 0 {
		t.Errorf("%v allocations a token", n)
	}
}

func TestExp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.Float32Range(-86, 86).Draw(r, "x")
		want := math.Exp(float64(x))
		if got := float64(Exp(x)); math.Abs(got-want) > 1e-5*want {
			r.Fatalf("e^%v: got %v, want %v", x, got, want)
		}
	})
}

func TestHalf(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x := rapid.Float32Range(-60000, 60000).Draw(r, "x")
		if got := fromHalf(toHalf(x)); math.Abs(float64(got-x)) > math.Abs(float64(x))/1000+1e-7 {
			r.Fatalf("%v came back as %v", x, got)
		}
	})
}

// TestBrokenFiles: each mistake has its own sentence.
func TestBrokenFiles(t *testing.T) {
	good := bytesOf(t, tiny(t), Q8)
	replace := func(old, with string) []byte { return bytes.Replace(good, []byte(old), []byte(with), 1) }
	after := func(key string, v uint32) []byte {
		b := bytes.Clone(good)
		i := bytes.Index(b, []byte(key)) + len(key) + 4
		binary.LittleEndian.PutUint32(b[i:], v)
		return b
	}
	huge := bytes.Clone(good)
	binary.LittleEndian.PutUint64(huge[8:], 1<<60)
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "does not start with GGUF"},
		{"text", []byte("hello there, this is no model"), "does not start with GGUF"},
		{"old", append([]byte("GGUF\x02\x00\x00\x00"), good[8:]...), "version 2"},
		{"cut in the words", good[:500], "ends within a value"},
		{"cut in the weights", good[:len(good)-40], "ends at byte"},
		{"many tensors", huge, "do not fit"},
		{"other architecture", replace("llama", "gemma"), "architecture"},
		{"other cut", replace("qwen2", "gpt-2"), "cut by the rule"},
		{"other tensor", replace("blk.1.attn_q", "blk.9.attn_q"), "not of this architecture"},
		{"too wide", after("llama.embedding_length", 1<<31), "width"},
		{"too deep", after("llama.block_count", 60), "weights in a file of"},
		{"odd heads", after("llama.attention.head_count", 3), "heads"},
		{"other commands", replace("<|user|>", "<|Alan|>"), "not trained for commands"},
	} {
		_, err := Read(c.data)
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzRead: a hostile file gives an error or a network that runs; it neither
// panics nor takes memory that it has not got.
func FuzzRead(f *testing.F) {
	n, err := New(Config{Vocab: 272, Dim: 32, Layers: 1, Heads: 1, FF: 32, Ctx: 8, Eps: 1e-5, Theta: 10000}, 1)
	if err != nil {
		f.Fatal(err)
	}
	good := bytesOf(f, &File{Net: n, Tokenizer: NewTokenizer([]string{"turn left"}, 272)}, Q8)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("GGUF\x03\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := Read(data)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Errorf("not an ErrFile: %v", err)
			}
			return
		}
		s := g.Net.Session(4)
		s.Step(TokenUser)
		g.Tokenizer.Decode(g.Tokenizer.Encode("turn left"))
	})
}

// TestEmbedded: the model in the binary is of the size that was promised.
func TestEmbedded(t *testing.T) {
	data, err := os.ReadFile("../robot-q8.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<20 {
		t.Errorf("%d bytes; at most 1 MiB", len(data))
	}
	if _, err := Read(data); err != nil {
		t.Error(err)
	}
}
