package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/engine"
	"edged/agent/llm/builtin/train"
)

// The verb train: a model for the robot's own tools, with its score.

// trained is what came out.
type trained struct {
	File     string          `json:"file"`
	Bytes    int             `json:"bytes"`
	Tools    int             `json:"tools"`
	Phrases  int             `json:"phrases"`
	Steps    int             `json:"steps"`
	Seconds  float64         `json:"seconds"`
	Loss     float64         `json:"loss"`
	Report   train.Report    `json:"report"`
	Mistakes []train.Mistake `json:"mistakes,omitempty"`
	Skipped  []skipped       `json:"skipped,omitempty"`
}

// trainFlags are those of the verb.
type trainFlags struct {
	train.Options
	out       string
	score     int
	show      bool
	modelfile bool
	mistakes  int
}

func (c *cli) trainVerb() *cobra.Command {
	var o trainFlags
	cmd := verb("train [DIR]", "Train a model for a robot's own tools", 0, 1, func(cmd *cobra.Command, args []string) error {
		cfg, err := robotAt("train", arg(args, "."))
		if err != nil {
			return err
		}
		l, err := lessonOf(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		if o.show {
			e := json.NewEncoder(c.out)
			e.SetEscapeHTML(false)
			e.SetIndent("", " ")
			return e.Encode(l.Robot)
		}
		for _, s := range l.Skipped {
			fmt.Fprintln(c.err, "not learned: "+s.String())
		}
		if o.out == "" {
			o.out = filepath.Join(cfg.Dir(), "model.gguf")
		}
		done, err := c.train(cmd.Context(), l, o)
		if err != nil {
			return err
		}
		return c.print(done, func(w io.Writer) { done.tell(w, cfg.Dir(), o.mistakes) })
	})
	cmd.Long = "Trains a tiny model for the tools of a robot's folder, from the sentences and examples that they list, and tells how\nwell it does with phrasings it has seen, with others, and with sentences that must not move anything (those in\ndecline.txt, one a line, and some that come with edged). It takes about 10 minutes on two cores.\nUse it with model = \"builtin:model.gguf\"; Ollama and llama.cpp load the same file."
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "the file to write; model.gguf in the folder if empty")
	f.IntVar(&o.Steps, "steps", 0, "steps of training; 1800 if 0")
	f.DurationVar(&o.Limit, "limit", 0, "set the steps so that training takes about so long")
	f.IntVar(&o.Workers, "workers", runtime.NumCPU(), "cores to use; the same number gives the same file")
	f.Uint64Var(&o.Seed, "seed", 1, "of chance; another one gives another model")
	f.IntVar(&o.score, "score", 300, "commands of each kind to score it with")
	f.IntVar(&o.mistakes, "mistakes", 5, "mistakes to show")
	f.BoolVar(&o.show, "show", false, "print what would be learned, and train nothing")
	f.BoolVar(&o.modelfile, "modelfile", false, "write a Modelfile for 'ollama create' beside it")
	return cmd
}

func (c *cli) train(ctx context.Context, l lesson, o trainFlags) (*trained, error) {
	done := &trained{File: o.out, Tools: len(l.Robot.Tools), Skipped: l.Skipped}
	for _, t := range l.Robot.Tools {
		done.Phrases += len(t.Say)
	}
	p := c.progress("train")
	p.unit = func(n int64) string { return count(int(n), "step") }
	o.Spawn = spawn
	began := time.Now()
	o.Progress = func(now train.Progress) {
		done.Steps, done.Loss = now.Step, now.Loss
		p.total = int64(now.Steps)
		p.add(int(int64(now.Step) - p.done))
	}
	file, err := train.Train(ctx, l.Robot, o.Options)
	p.end()
	if err != nil {
		return nil, err
	}
	done.Seconds = time.Since(began).Seconds()
	var b bytes.Buffer
	if err := file.Write(&b, engine.Q8); err != nil {
		return nil, err
	}
	m, err := builtin.New(builtin.Options{Name: "builtin:" + o.out, Data: b.Bytes()})
	if err != nil {
		return nil, err
	}
	if done.Report, err = train.Evaluate(ctx, m, l.Robot, o.score, o.Seed+1, heldBack(l.Robot.Decline)); err != nil {
		return nil, err
	}
	done.Mistakes, done.Bytes = done.Report.Mistakes, b.Len()
	if err := writeWhole(o.out, b.Bytes()); err != nil {
		return nil, fmt.Errorf("train: %w", err)
	}
	if o.modelfile {
		return done, writeWhole(o.out+".Modelfile", []byte(engine.Modelfile(filepath.Base(o.out))))
	}
	return done, nil
}

// spawn runs the workers on goroutines.
func spawn(n int, f func(worker int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// writeWhole puts a file in place at once: a robot that watches its folder
// never sees half of it.
func writeWhole(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	for _, e := range []error{f.Chmod(0o644), f.Sync(), f.Close()} {
		if err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (t *trained) tell(w io.Writer, dir string, mistakes int) {
	fmt.Fprintf(w, "%s: %d KiB, %s, %s, %s in %v\n", t.File, t.Bytes>>10, count(t.Tools, "tool"), count(t.Phrases, "phrase"),
		count(t.Steps, "step"), time.Duration(t.Seconds*float64(time.Second)).Round(time.Second))
	fmt.Fprint(w, t.Report.String())
	for i, m := range t.Mistakes {
		if i == mistakes {
			fmt.Fprintf(w, "  and %d more; --mistakes shows them\n", len(t.Mistakes)-i)
			break
		}
		fmt.Fprintf(w, "  %q: %s, want %s\n", m.Said, m.Got, m.Want)
	}
	name := t.File
	if rel, err := filepath.Rel(dir, t.File); err == nil {
		name = rel
	}
	fmt.Fprintf(w, "use it: model = [\"intent\", \"builtin:%s\"]\n", filepath.ToSlash(name))
}
