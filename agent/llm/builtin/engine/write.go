package engine

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Format is how weights are kept in a file.
type Format string

// The formats. Norms always stay f32, as llama.cpp wants them.
const (
	F32 Format = "f32"
	F16 Format = "f16"
	Q8  Format = "q8_0"
)

// chatTemplate is for servers that read it from the file; Ollama takes its own
// from the Modelfile.
const chatTemplate = `{% for m in messages %}{% if m['role'] == 'user' %}<|user|>{{ m['content'] }}{% elif m['role'] == 'tool' %}<|tool|>{{ m['content'] }}{% elif m['role'] == 'system' %}<|system|>{{ m['content'] }}{% elif m['role'] == 'assistant' %}<|assistant|>{{ m['content'] }}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`

// Modelfile is what `ollama create` wants beside a GGUF file of ours. The
// tools of these models are fixed in training, so the template names them only
// to say that tools are understood.
func Modelfile(path string) string {
	return fmt.Sprintf(`FROM %s
TEMPLATE """{{- if .Tools }}{{ end }}{{- range .Messages }}
{{- if eq .Role "user" }}<|user|>{{ .Content }}
{{- else if eq .Role "tool" }}<|tool|>{{ .Content }}
{{- else if eq .Role "assistant" }}<|assistant|>{{ .Content }}
{{- if .ToolCalls }}{{ range .ToolCalls }}<tool_call>{"name":"{{ .Function.Name }}","arguments":{{ .Function.Arguments }}}</tool_call>{{ end }}{{ end }}<|end|>
{{- end }}{{- end }}<|assistant|>"""
PARAMETER temperature 0
PARAMETER stop "<|end|>"
PARAMETER num_ctx 512
`, path)
}

// Write writes a network and its tokenizer as GGUF version 3, as llama.cpp and
// Ollama read it.
func (f *File) Write(to io.Writer, format Format) error {
	fileType, ok := map[Format]uint32{F32: 0, F16: 1, Q8: 7}[format]
	if !ok {
		return fmt.Errorf("engine: write: no format %q", format)
	}
	w := &writer{}
	pairs := f.pairs(fileType)
	w.raw("GGUF")
	w.u32(3)
	w.u64(len(f.Net.Params))
	w.u64(len(pairs))
	for _, p := range pairs {
		w.text(p.key)
		w.value(p.val)
	}
	var blobs [][]byte
	off := 0
	for _, p := range f.Net.Params {
		kind, b := encode(p, format)
		w.text(p.Name)
		if p.Rows == 1 {
			w.u32(1)
		} else {
			w.u32(2)
		}
		w.u64(p.Cols)
		if p.Rows > 1 {
			w.u64(p.Rows)
		}
		w.u32(kind)
		w.u64(off)
		b = pad(b)
		off += len(b)
		blobs = append(blobs, b)
	}
	w.b = pad(w.b)
	for _, b := range append([][]byte{w.b}, blobs...) {
		if _, err := to.Write(b); err != nil {
			return fmt.Errorf("engine: write: %w", err)
		}
	}
	return nil
}

type pair struct {
	key string
	val any
}

func (f *File) pairs(fileType uint32) []pair {
	c, t := f.Net.Config, f.Tokenizer
	u := func(i int) uint32 { return uint32(i) }
	merges := make([]string, len(t.Merges))
	for i, m := range t.Merges {
		merges[i] = m[0] + " " + m[1]
	}
	out := []pair{
		{"general.architecture", "llama"}, {"general.name", f.Name}, {"general.file_type", fileType},
		{"llama.block_count", u(c.Layers)}, {"llama.context_length", u(c.Ctx)},
		{"llama.embedding_length", u(c.Dim)}, {"llama.feed_forward_length", u(c.FF)},
		{"llama.attention.head_count", u(c.Heads)}, {"llama.attention.head_count_kv", u(c.Heads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(c.Eps)},
		{"llama.rope.dimension_count", u(c.Head())}, {"llama.rope.freq_base", float32(c.Theta)},
		{"llama.vocab_size", u(c.Vocab)},
		{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "qwen2"},
		{"tokenizer.ggml.tokens", t.Tokens}, {"tokenizer.ggml.token_type", t.Kinds},
		{"tokenizer.ggml.merges", merges},
		{"tokenizer.ggml.bos_token_id", u(TokenEnd)}, {"tokenizer.ggml.eos_token_id", u(TokenEnd)},
		{"tokenizer.ggml.add_bos_token", false}, {"tokenizer.ggml.add_eos_token", false},
		{"tokenizer.chat_template", chatTemplate},
	}
	for _, k := range slices.Sorted(maps.Keys(f.Extra)) {
		out = append(out, pair{k, f.Extra[k]})
	}
	return out
}

func encode(p *Param, format Format) (uint32, []byte) {
	if p.Rows == 1 || format == F32 {
		b := make([]byte, 0, 4*len(p.W))
		for _, x := range p.W {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		return tensorF32, b
	}
	if format == F16 {
		b := make([]byte, 0, 2*len(p.W))
		for _, x := range p.W {
			b = binary.LittleEndian.AppendUint16(b, toHalf(x))
		}
		return tensorF16, b
	}
	var b []byte
	for i := 0; i < len(p.W); i += 32 {
		most := float32(0)
		for _, x := range p.W[i : i+32] {
			most = max(most, x, -x)
		}
		d := most / 127
		b = binary.LittleEndian.AppendUint16(b, toHalf(d))
		for _, x := range p.W[i : i+32] {
			q := 0.0
			if d > 0 {
				q = math.Round(float64(x / d))
			}
			b = append(b, byte(int8(q)))
		}
	}
	return tensorQ8, b
}

func pad(b []byte) []byte {
	for len(b)%align != 0 {
		b = append(b, 0)
	}
	return b
}

type writer struct{ b []byte }

func (w *writer) raw(s string)  { w.b = append(w.b, s...) }
func (w *writer) u32(v uint32)  { w.b = binary.LittleEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v int)     { w.b = binary.LittleEndian.AppendUint64(w.b, uint64(v)) }
func (w *writer) text(s string) { w.u64(len(s)); w.raw(s) }

func (w *writer) value(v any) {
	switch v := v.(type) {
	case uint32:
		w.u32(typeU32)
		w.u32(v)
	case float32:
		w.u32(typeF32)
		w.u32(math.Float32bits(v))
	case bool:
		w.u32(typeBool)
		w.raw(map[bool]string{false: "\x00", true: "\x01"}[v])
	case string:
		w.u32(typeText)
		w.text(v)
	case []string:
		w.u32(typeList)
		w.u32(typeText)
		w.u64(len(v))
		for _, s := range v {
			w.text(s)
		}
	case []int32:
		w.u32(typeList)
		w.u32(typeI32)
		w.u64(len(v))
		for _, x := range v {
			w.u32(uint32(x))
		}
	}
}
