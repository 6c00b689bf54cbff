package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"edged/agent/llm"
)

// RecorderOptions of a [Recorder].
type RecorderOptions struct {
	Name string // the model's, as scripts write it
	// Failed is told once when writing fails; the robot goes on without a
	// recording. It may be nil: [Recorder.Err] knows it too.
	Failed func(error)
}

// A Recorder is a model that writes down what another one is asked and says,
// as JSON lines. It may be used concurrently; each line is one Write, made
// when the answer is whole. The recording holds prompts as they are, so it is
// as private as they are.
type Recorder struct {
	m   llm.Model
	opt RecorderOptions

	mu   sync.Mutex // guards the rest, and orders the lines
	w    io.Writer
	head bool
	info llm.Info
	err  error
}

var (
	_ llm.Model     = (*Recorder)(nil)
	_ llm.Describer = (*Recorder)(nil)
	_ llm.Embedder  = (*Recorder)(nil)
	_ llm.Warmer    = (*Recorder)(nil)
)

// NewRecorder makes a recorder of a model. Who opened w closes it.
func NewRecorder(m llm.Model, w io.Writer, o RecorderOptions) *Recorder {
	return &Recorder{m: m, w: w, opt: o}
}

// Chat passes the request on and writes down the answer.
func (r *Recorder) Chat(ctx context.Context, q llm.Request, say func(string) error) (llm.Message, error) {
	asked := record(q) // before the model has had it in hands
	l := line{Model: r.opt.Name, Request: &asked, Print: fingerprint(asked)}
	heard := say
	var deaf error
	if say != nil {
		heard = func(text string) error {
			l.Pieces = append(l.Pieces, text)
			deaf = say(text)
			return deaf
		}
	}
	start := time.Now()
	answer, err := r.m.Chat(ctx, q, heard)
	l.Millis = time.Since(start).Milliseconds()
	if err != nil {
		if deaf != nil {
			return answer, err // how the model would have gone on is not known
		}
		l.Error = failed(err)
	} else {
		l.Message = &answer
	}
	r.write(l)
	return answer, err
}

// Describe passes the question on and writes down what is new.
func (r *Recorder) Describe(ctx context.Context) (llm.Info, error) {
	i, err := llm.Describe(ctx, r.m)
	if err != nil {
		return i, err
	}
	r.mu.Lock()
	known := reflect.DeepEqual(i, r.info)
	r.info = i
	r.mu.Unlock()
	if !known {
		r.write(line{Model: r.opt.Name, Info: &i})
	}
	return i, nil
}

// Embed passes the texts on and writes down their vectors.
func (r *Recorder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	e, ok := r.m.(llm.Embedder)
	if !ok {
		return nil, fmt.Errorf("replay: record: %w", llm.ErrNoEmbedding)
	}
	v, err := e.Embed(ctx, texts)
	if err == nil {
		r.write(line{Model: r.opt.Name, Embed: &embedding{texts, v}})
	}
	return v, err
}

// Warm passes the wish on.
func (r *Recorder) Warm(ctx context.Context) error {
	if w, ok := r.m.(llm.Warmer); ok {
		return w.Warm(ctx)
	}
	return nil
}

func (r *Recorder) write(l line) {
	b, err := json.Marshal(l)
	b = append(b, '\n')
	r.mu.Lock()
	broken := r.err != nil
	if !broken && !r.head {
		b = append([]byte(`{"format":"`+format+`"}`+"\n"), b...)
		r.head = true
	}
	if !broken && err == nil {
		_, err = r.w.Write(b)
	}
	if !broken && err != nil {
		r.err = fmt.Errorf("replay: record: %w", err)
	}
	tell := r.err
	r.mu.Unlock()
	if !broken && tell != nil && r.opt.Failed != nil {
		r.opt.Failed(tell)
	}
}
