package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"edged/agent/llm"
	"edged/agent/llm/bench"
	"edged/agent/llm/builtin"
	"edged/agent/llm/builtin/train"
	"edged/agent/llm/ollama"
	"edged/cmd/edged/internal/config"
)

// The verb model: what models there are, and how good they are on this machine.

func (c *cli) modelVerb() *cobra.Command {
	cmd := verb("model", "Fetch, list, show, remove and measure models", 0, -1, func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownVerb(cmd, args[0])
	})
	cmd.Long = "Models have names as in scripts: builtin, ollama:qwen2.5:1.5b or qwen2.5:1.5b, openai:NAME@http://host:port/v1.\nNothing but 'edged model pull' ever fetches one."
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", ".", "folder of the robot whose settings say where servers are")
	with := func(run func(cmd *cobra.Command, s *servers, args []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			cfg, err := config.Load(dir, environ(), nil)
			if err != nil {
				return err
			}
			s := newServers(cfg, nil)
			defer s.close()
			return run(cmd, s, args)
		}
	}
	cmd.AddCommand(
		verb("list", "List the models there are", 0, 0, with(c.modelList)),
		verb("show [NAME]", "Tell what a model is and can do", 0, 1, with(c.modelShow)),
		verb("pull NAME", "Fetch a model with Ollama", 1, 1, with(c.modelPull)),
		verb("rm NAME", "Remove a model from Ollama's disk", 1, 1, with(c.modelRemove)),
		c.modelBench(with),
	)
	return cmd
}

// modelRow is a model in the list.
type modelRow struct {
	Name   string `json:"name"`
	Size   int64  `json:"size,omitempty"` // bytes
	Kind   string `json:"kind,omitempty"`
	Loaded bool   `json:"loaded"`
}

func (c *cli) modelList(cmd *cobra.Command, s *servers, _ []string) error {
	rows := []modelRow{{Name: kindBuiltin, Kind: "in the binary", Loaded: true}}
	files, _ := filepath.Glob(filepath.Join(s.cfg.Dir(), "*.gguf")) // the pattern is right
	for _, f := range files {
		if st, err := os.Stat(f); err == nil {
			rows = append(rows, modelRow{Name: kindBuiltin + ":" + filepath.Base(f), Size: st.Size(), Kind: "in the folder"})
		}
	}
	o, err := s.Ollama()
	if err != nil {
		return err
	}
	list, err := o.List(cmd.Context())
	if err != nil && !errors.Is(err, llm.ErrDown) {
		return err
	}
	for _, m := range list {
		rows = append(rows, modelRow{Name: kindOllama + ":" + m.Name, Size: m.Size, Loaded: m.Loaded, Kind: strings.TrimSpace(m.Parameters + " " + m.Quantization)})
	}
	return c.print(rows, func(w io.Writer) {
		for _, r := range rows {
			size, loaded := "", ""
			if r.Size > 0 {
				size = mebibytes(r.Size)
			}
			if r.Loaded {
				loaded = "in memory"
			}
			fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-32s %10s  %-14s %s", r.Name, size, r.Kind, loaded), " "))
		}
		if err != nil {
			fmt.Fprintf(w, "no Ollama at %s; https://ollama.com/download, or set models.ollama\n", o.URL())
		}
	})
}

// named is the model that a verb is about.
func named(s *servers, args []string) (string, error) {
	name := arg(args, s.cfg.Models.Default)
	if name == "" {
		name = kindBuiltin
	}
	name, err := modelName(name)
	if err == nil && (name == kindIntent || strings.HasPrefix(name, kindReplay+":")) {
		err = fmt.Errorf("%q is made of what a script or a recording holds; name builtin, ollama:NAME or openai:NAME@URL", name)
	}
	if err != nil {
		return "", usagef("model: %v", err)
	}
	return name, nil
}

// shownModel is what model show prints.
type shownModel struct {
	llm.Info
	Ollama *ollama.Details `json:"ollama,omitempty"`
	Known  *builtin.Known  `json:"known,omitempty"`
}

func (c *cli) modelShow(cmd *cobra.Command, s *servers, args []string) error {
	name, err := named(s, args)
	if err != nil {
		return err
	}
	m, err := s.model(name, "")
	if err != nil {
		return err
	}
	var out shownModel
	if out.Info, err = llm.Describe(cmd.Context(), m); err != nil {
		return s.meant(cmd.Context(), name, err)
	}
	if rest, ok := strings.CutPrefix(name, kindOllama+":"); ok {
		o, err := s.Ollama()
		if err != nil {
			return err
		}
		d, err := o.Show(cmd.Context(), rest)
		if err != nil {
			return err
		}
		out.Ollama = &d
	}
	if b, _, err := s.make(name, ""); err == nil {
		if b, ok := b.(*builtin.Model); ok {
			k := b.Known()
			out.Known = &k
		}
	}
	return c.print(out, func(w io.Writer) { out.tell(w) })
}

func (m shownModel) tell(w io.Writer) {
	fmt.Fprintln(w, modelState{Name: m.Name, Info: m.Info})
	can := []string{}
	for _, x := range []struct {
		word string
		ok   bool
	}{{"tools", m.Tools}, {"schema", m.Schema}, {"thinking", m.Thinking}, {"embeddings", m.Embed}} {
		if x.ok {
			can = append(can, x.word)
		}
	}
	fmt.Fprintln(w, "can      "+strings.Join(can, ", "))
	if d := m.Ollama; d != nil {
		fmt.Fprintf(w, "family   %s\n", strings.Join(strings.Fields(d.Family+" "+d.Parameters+" "+d.Quantization), ", "))
		fmt.Fprintf(w, "trained  for %d tokens of context\n", d.Context)
		if first, _, _ := strings.Cut(strings.TrimSpace(d.License), "\n"); first != "" {
			fmt.Fprintf(w, "license  %s\n", strings.TrimSpace(first))
		}
	}
	if m.Known != nil {
		for _, t := range m.Known.Tools {
			fmt.Fprintf(w, "knows    %s: %s\n", t.Name, t.Doc)
		}
	}
}

// meant adds which model may have been meant by one that isn't there.
func (s *servers) meant(ctx context.Context, name string, err error) error {
	rest, ok := strings.CutPrefix(name, kindOllama+":")
	if !ok || !errors.Is(err, llm.ErrUnknownModel) {
		return err
	}
	o, e := s.Ollama()
	if e != nil {
		return err
	}
	list, e := o.List(ctx)
	if e != nil {
		return err
	}
	var names []string
	for _, m := range list {
		names = append(names, strings.TrimSuffix(m.Name, ":latest"))
	}
	return fmt.Errorf("%w%s", err, perhaps(rest, names))
}

// ofOllama is the name of a model of Ollama, as Ollama knows it.
func ofOllama(verb, name string) (string, error) {
	full, err := modelName(name)
	if err != nil {
		return "", usagef("model %s: %v", verb, err)
	}
	rest, ok := strings.CutPrefix(full, kindOllama+":")
	if !ok {
		return "", usagef("model %s: %s is no model of Ollama; write ollama:NAME", verb, full)
	}
	return rest, nil
}

func (c *cli) modelPull(cmd *cobra.Command, s *servers, args []string) error {
	name, err := ofOllama("pull", args[0])
	if err != nil {
		return err
	}
	o, err := s.Ollama()
	if err != nil {
		return err
	}
	p := c.progress("pull " + name)
	done := map[string]int64{} // of each part
	total := map[string]int64{}
	status := ""
	err = o.Pull(cmd.Context(), name, func(now ollama.Progress) error {
		if now.Total == 0 {
			if now.Status != status && !p.bar {
				fmt.Fprintf(c.err, "pull %s: %s\n", name, now.Status)
			}
			status = now.Status
			return nil
		}
		done[now.Digest], total[now.Digest] = now.Completed, now.Total
		p.total = sum(total)
		p.add(int(sum(done) - p.done))
		return nil
	})
	p.end()
	if err != nil {
		return err
	}
	return c.print(map[string]any{"name": kindOllama + ":" + name, "bytes": sum(total)}, func(w io.Writer) {
		fmt.Fprintf(w, "%s is there; model = \"%s:%s\"\n", name, kindOllama, name)
	})
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

func (c *cli) modelRemove(cmd *cobra.Command, s *servers, args []string) error {
	name, err := ofOllama("rm", args[0])
	if err != nil {
		return err
	}
	o, err := s.Ollama()
	if err != nil {
		return err
	}
	if err := o.Remove(cmd.Context(), name); err != nil {
		return s.meant(cmd.Context(), kindOllama+":"+name, err)
	}
	return c.print(map[string]any{"removed": kindOllama + ":" + name}, func(w io.Writer) { fmt.Fprintf(w, "removed %s\n", name) })
}

// measured is what model bench prints.
type measured struct {
	Name          string        `json:"name"`
	bench.Figures               // speed
	Calls         *train.Report `json:"calls,omitempty"`    // on the robot's own tools
	Uncalled      string        `json:"uncalled,omitempty"` // why there are none
}

func (c *cli) modelBench(with func(func(*cobra.Command, *servers, []string) error) func(*cobra.Command, []string) error) *cobra.Command {
	var o bench.Options
	var n int
	cmd := verb("bench [NAME]", "Measure a model: speed, and calls of the robot's own tools", 0, 1,
		with(func(cmd *cobra.Command, s *servers, args []string) error {
			name, err := named(s, args)
			if err != nil {
				return err
			}
			m, err := s.model(name, "")
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			out := measured{Name: name}
			if out.Figures, err = bench.Run(ctx, m, o); err != nil {
				return s.meant(ctx, name, err)
			}
			robot := train.Demo()
			if _, err := os.Stat(filepath.Join(s.cfg.Dir(), "main.star")); err == nil {
				l, err := lessonOf(ctx, s.cfg)
				var none *nothingSaidError
				switch {
				case errors.As(err, &none): // how fast it is can be told all the same
					out.Uncalled, n = "no calls: its tools have neither sentences nor examples"+none.reasons, 0
				case err != nil:
					return err
				}
				robot = l.Robot
			} else if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if n > 0 {
				quiet := heldBack(robot.Decline)
				rep, err := train.Evaluate(ctx, m, robot, n, 1, quiet[:min(n, len(quiet))])
				if err != nil {
					return err
				}
				out.Calls = &rep
			}
			return c.print(out, func(w io.Writer) { out.tell(w) })
		}))
	cmd.Long = "Measures how soon a model speaks, how fast, and how often it calls the right tool of the robot in --dir with the right\narguments, as people would ask for it; without a robot the tools of the demo."
	cmd.Flags().IntVar(&o.Runs, "runs", 3, "answers to measure the speed by")
	cmd.Flags().IntVar(&o.MaxTokens, "tokens", 64, "length of these answers")
	cmd.Flags().IntVar(&n, "calls", 10, "commands of each kind to score it with; 0 = only speed")
	return cmd
}

func (m measured) tell(w io.Writer) {
	fmt.Fprintf(w, "%s: first word after %.0f ms", m.Name, ms(m.First))
	if m.Rate > 0 {
		fmt.Fprintf(w, ", %.1f tokens/s", m.Rate)
	} else {
		fmt.Fprint(w, ", no tokens/s: its answers come whole")
	}
	if load := m.Load; load > 0 {
		fmt.Fprintf(w, ", loaded in %.1f s", load.Seconds())
	}
	fmt.Fprintln(w)
	if m.Uncalled != "" {
		fmt.Fprintln(w, m.Uncalled)
	}
	if m.Calls == nil {
		return
	}
	fmt.Fprint(w, m.Calls.String())
	for _, x := range m.Calls.Mistakes[:min(5, len(m.Calls.Mistakes))] {
		fmt.Fprintf(w, "  %q: %s, want %s\n", x.Said, x.Got, x.Want)
	}
}
