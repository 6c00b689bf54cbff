package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// The parts of GGUF version 3 that are used here.
const (
	typeU32  = 4
	typeI32  = 5
	typeF32  = 6
	typeBool = 7
	typeText = 8
	typeList = 9

	tensorF32 = 0
	tensorF16 = 1
	tensorQ8  = 8

	align = 32
)

// ErrFile is wrapped by all errors about a file that can't be used.
var ErrFile = errors.New("not a model file of this engine")

// File is what a GGUF file holds.
type File struct {
	Net       *Net
	Tokenizer *Tokenizer
	Name      string
	Extra     map[string]string // texts under "edged." keys
}

// Read reads a GGUF file with weights of f32, f16 or q8_0. A broken or hostile
// file gives an error that wraps ErrFile; memory stays within a few times the
// length of the file.
func Read(data []byte) (*File, error) {
	f, err := read(data)
	if err != nil {
		return nil, fmt.Errorf("engine: read: %w: %w", ErrFile, err)
	}
	return f, nil
}

func read(data []byte) (*File, error) {
	r := &reader{b: data}
	if string(r.take(4)) != "GGUF" {
		return nil, errors.New("it does not start with GGUF")
	}
	if v := r.u32(); v != 3 {
		return nil, fmt.Errorf("GGUF version %d; 3 is read", v)
	}
	tensors, pairs := r.count(24), r.count(12)
	m := make(map[string]any)
	for i := 0; i < pairs && r.err == nil; i++ {
		k := r.text()
		m[k] = r.value(r.u32(), 0)
	}
	if r.err != nil {
		return nil, r.err
	}
	if a, _ := m["general.architecture"].(string); a != "llama" {
		return nil, fmt.Errorf("architecture %q; llama is read", a)
	}
	t, err := readTokenizer(m)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(m, len(t.Tokens))
	if err != nil {
		return nil, err
	}
	if need := c.size(); need > len(data) {
		return nil, fmt.Errorf("a network of %d weights in a file of %d bytes", need, len(data))
	}
	f := &File{Net: build(c), Tokenizer: t, Extra: map[string]string{}}
	f.Name, _ = m["general.name"].(string)
	for k, v := range m {
		if s, ok := v.(string); ok && strings.HasPrefix(k, "edged.") {
			f.Extra[k] = s
		}
	}
	return f, readWeights(r, f.Net, tensors)
}

// size is the number of weights of a shape.
func (c Config) size() int {
	return c.Vocab*c.Dim + c.Dim + c.Layers*(2*c.Dim+4*c.Dim*c.Dim+3*c.Dim*c.FF)
}

func readConfig(m map[string]any, tokens int) (Config, error) {
	num := func(k string) int { x, _ := m["llama."+k].(uint32); return int(min(x, 1<<30)) }
	real := func(k string) float64 { x, _ := m["llama."+k].(float32); return float64(x) }
	c := Config{
		Vocab: tokens, Dim: num("embedding_length"), Layers: num("block_count"), Heads: num("attention.head_count"),
		FF: num("feed_forward_length"), Ctx: num("context_length"),
		Eps: real("attention.layer_norm_rms_epsilon"), Theta: real("rope.freq_base"),
	}
	if err := c.check(); err != nil {
		return c, err
	}
	if kv := num("attention.head_count_kv"); kv != 0 && kv != c.Heads {
		return c, fmt.Errorf("%d heads share %d keys; this engine wants one each", c.Heads, kv)
	}
	if rope := num("rope.dimension_count"); rope != 0 && rope != c.Head() {
		return c, fmt.Errorf("rotary width %d in heads of %d", rope, c.Head())
	}
	return c, nil
}

func readTokenizer(m map[string]any) (*Tokenizer, error) {
	if model, _ := m["tokenizer.ggml.model"].(string); model != "gpt2" {
		return nil, fmt.Errorf("tokenizer %q; gpt2 is read", model)
	}
	if pre, _ := m["tokenizer.ggml.pre"].(string); pre != "qwen2" {
		return nil, fmt.Errorf("text cut by the rule %q; qwen2 is read", pre)
	}
	t := &Tokenizer{}
	t.Tokens, _ = m["tokenizer.ggml.tokens"].([]string)
	t.Kinds, _ = m["tokenizer.ggml.token_type"].([]int32)
	merges, _ := m["tokenizer.ggml.merges"].([]string)
	texts, kinds := specials()
	if len(t.Tokens) < len(texts) || len(t.Tokens) != len(t.Kinds) {
		return nil, fmt.Errorf("%d tokens of %d kinds", len(t.Tokens), len(t.Kinds))
	}
	for i, s := range texts {
		if t.Tokens[i] != s || t.Kinds[i] != kinds[i] {
			return nil, fmt.Errorf("token %d is %q, not %q: not trained for commands", i, t.Tokens[i], s)
		}
	}
	for _, s := range merges {
		a, b, ok := strings.Cut(s, " ")
		if !ok || a == "" || b == "" {
			return nil, fmt.Errorf("merge %q has no two parts", s)
		}
		t.Merges = append(t.Merges, [2]string{a, b})
	}
	t.index()
	return t, nil
}

func readWeights(r *reader, n *Net, tensors int) error {
	type place struct {
		kind uint32
		off  uint64
	}
	places := make(map[string]place)
	for i := 0; i < tensors && r.err == nil; i++ {
		name := r.text()
		shape := [2]uint64{1, 1}
		dims := r.u32()
		if dims < 1 || dims > 2 {
			return fmt.Errorf("tensor %q has %d dimensions", name, dims)
		}
		for d := range dims {
			shape[d] = r.u64()
		}
		p := n.param(name)
		if p == nil {
			return fmt.Errorf("tensor %q is not of this architecture", name)
		}
		if shape != [2]uint64{uint64(p.Cols), uint64(p.Rows)} {
			return fmt.Errorf("tensor %q is %d × %d, not %d × %d", name, shape[1], shape[0], p.Rows, p.Cols)
		}
		places[name] = place{r.u32(), r.u64()}
	}
	if r.err != nil {
		return r.err
	}
	start := uint64(r.i+align-1) / align * align
	for _, p := range n.Params {
		at, ok := places[p.Name]
		if !ok {
			return fmt.Errorf("tensor %q is missing", p.Name)
		}
		size, err := blob(at.kind, len(p.W))
		if err != nil {
			return fmt.Errorf("tensor %q: %w", p.Name, err)
		}
		end := start + at.off + uint64(size)
		if at.off > uint64(len(r.b)) || end > uint64(len(r.b)) {
			return fmt.Errorf("tensor %q ends at byte %d of %d", p.Name, end, len(r.b))
		}
		decode(p.W, at.kind, r.b[start+at.off:end])
	}
	return nil
}

func (n *Net) param(name string) *Param {
	for _, p := range n.Params {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// blob is the length of n weights in bytes.
func blob(kind uint32, n int) (int, error) {
	switch kind {
	case tensorF32:
		return 4 * n, nil
	case tensorF16:
		return 2 * n, nil
	case tensorQ8:
		return n / 32 * 34, nil
	}
	return 0, fmt.Errorf("weights of type %d; f32, f16 and q8_0 are read", kind)
}

func decode(w []float32, kind uint32, b []byte) {
	switch kind {
	case tensorF32:
		for i := range w {
			w[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case tensorF16:
		for i := range w {
			w[i] = fromHalf(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case tensorQ8: // blocks of 32: one f16 scale, 32 int8
		for ; len(w) >= 32; w, b = w[32:], b[34:] {
			scale := fromHalf(binary.LittleEndian.Uint16(b))
			for i, q := range b[2:34] {
				w[i] = scale * float32(int8(q))
			}
		}
	}
}

// reader walks over bytes that nobody vouches for. After its first error all
// it gives is zero.
type reader struct {
	b   []byte
	i   int
	err error
}

func (r *reader) take(n uint64) []byte {
	if r.err == nil && n > uint64(len(r.b)-r.i) {
		r.err = fmt.Errorf("it ends within a value at byte %d", r.i)
	}
	if r.err != nil {
		return nil
	}
	r.i += int(n)
	return r.b[r.i-int(n) : r.i]
}

func (r *reader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads how many things of at least size bytes follow.
func (r *reader) count(size int) int {
	n := r.u64()
	if r.err == nil && n > uint64(len(r.b)-r.i)/uint64(size) {
		r.err = fmt.Errorf("%d entries do not fit at byte %d", n, r.i)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) text() string { return string(r.take(r.u64())) }

func (r *reader) value(kind uint32, depth int) any {
	switch kind {
	case 0, 1, typeBool:
		if b := r.take(1); b != nil {
			return b[0] != 0
		}
	case 2, 3:
		r.take(2)
	case typeU32:
		return r.u32()
	case typeI32:
		return int32(r.u32())
	case typeF32:
		return math.Float32frombits(r.u32())
	case typeText:
		return r.text()
	case 10, 11, 12:
		r.u64()
	case typeList:
		if depth == 0 {
			return r.list()
		}
		r.err = errors.Join(r.err, errors.New("lists in lists"))
	default:
		r.err = errors.Join(r.err, fmt.Errorf("a value of type %d", kind))
	}
	return nil
}

func (r *reader) list() any {
	switch kind := r.u32(); kind {
	case typeText:
		out := make([]string, r.count(8))
		for i := range out {
			out[i] = r.text()
		}
		return out
	case typeI32:
		out := make([]int32, r.count(4))
		for i := range out {
			out[i] = int32(r.u32())
		}
		return out
	default: // scores and the like: passed over
		for n := r.count(1); n > 0 && r.err == nil; n-- {
			r.value(kind, 1)
		}
	}
	return nil
}
