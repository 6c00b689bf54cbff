package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"edged/agent/llm"
	recollection "edged/agent/llm/memory"
	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
	"edged/workflow"
	"edged/workflow/society"
)

// What the robot thinks with: models, memory, audit, and whom it asks.

// openMind makes what agents with models need. Nothing is connected.
func (r *robot) openMind() (err error) {
	if r.words, err = r.cfg.Stop.Heard(); err != nil {
		return err
	}
	if err := r.rig.Hear(r.words.Stops); err != nil {
		return err
	}
	r.persons = newPersons(r.bus)
	if err := errors.Join(r.persons.hear(), r.persons.hearWords()); err != nil {
		return err
	}
	r.traffic = newTraffic()
	r.servers = newServers(r.cfg, r.traffic)
	kept := ends{r.board.Records("audit")}
	if r.dataTrouble != "" { // it is another file
		kept.Records = nil
	}
	if r.audit, err = openAudit(dataDir(r.cfg), kept, time.Now()); err != nil {
		return err
	}
	if r.audit.trouble != "" {
		r.log.Error(r.audit.trouble)
	}
	return r.recordModels()
}

// recordModels writes what models are asked beside the events of --record.
func (r *robot) recordModels() error {
	if r.runOptions.record == "" {
		return nil
	}
	f, err := os.OpenFile(r.runOptions.record+".models", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("run: --record: %w", err)
	}
	r.traffic.add(f, func(err error) { r.log.Error("models are recorded no more", "err", err) })
	r.modelFile = f
	return nil
}

func (r *robot) closeMind() error {
	r.servers.close()
	err := errors.Join(r.audit.close(), r.peers.close())
	if r.modelFile != nil {
		err = errors.Join(err, r.modelFile.Sync(), r.modelFile.Close())
	}
	return err
}

// think fills in what scripts have of it.
func (r *robot) think(ctx context.Context, h *lib.Host) (err error) {
	h.Memory, err = recollection.Open(ctx, r.board.Records("memory"), recollection.Options{})
	h.Models, h.Sessions, h.Audit = r.servers.model, lib.NewSessions(), r.audit.Audit
	h.Runs, h.Live = workflow.NewRuns(r.board.Records("runs"), workflow.RunsOptions{}), workflow.NewLive()
	h.Turns = society.NewLog(r.board.Records(roomOfTurns), society.LogOptions{})
	h.Trusted, h.TaintedWrites = r.trusted, r.cfg.Models.Tainted
	h.Confirm = func(ctx context.Context, q lib.Question) error {
		return r.persons.confirm(ctx, question{Agent: q.Agent, Tool: q.Tool, Args: q.Args, Text: q.Text, Origin: q.Origin})
	}
	h.Ask = func(ctx context.Context, q lib.Ask) (string, error) { return r.persons.inquire(ctx, newInquiry(q)) }
	h.MCP = r.peers.tools
	return err
}

// modelsOf are the models that a behaviour's agents think with, each once.
func modelsOf(b *lib.Behaviour) []string {
	var names []string
	add := func(list []string) {
		for _, n := range list {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, a := range b.Agents() {
		if m, ok := a.(interface{ Models() []string }); ok {
			add(m.Models())
		}
	}
	add(b.Models())
	return names
}

// served reports whether a model is one that a server has.
func served(name string) bool {
	return strings.HasPrefix(name, kindOllama+":") || strings.HasPrefix(name, kindOpenAI+":")
}

// lookTime is how long the start waits for servers to say what they have.
const lookTime = 300 * time.Millisecond

// modelLine tells of the models in one phrase.
func (r *robot) modelLine() string {
	b, _ := r.scripts.behaviour()
	names := modelsOf(b)
	if len(names) == 0 {
		return "none; agents are functions"
	}
	var words []string
	for _, m := range r.servers.look(context.Background(), names, lookTime) {
		words = append(words, m.String())
	}
	return strings.Join(words, "; ")
}

// warm loads the models that scripts name, in the background. What can't be
// loaded is told; the agents that need it say so again.
func (r *robot) warm(ctx context.Context) error {
	b, _ := r.scripts.behaviour()
	ctx = llm.WithPriority(ctx, llm.Background)
	for _, name := range modelsOf(b) {
		if !served(name) {
			continue
		}
		m, err := r.servers.model(name, "")
		if w, ok := m.(llm.Warmer); ok && err == nil {
			err = w.Warm(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, llm.ErrDown), errors.Is(err, llm.ErrUnknownModel):
			r.log.Info("model is not there", "model", name, "err", err) // the first line about models said so
		case err != nil:
			r.log.Warn("model is not warm", "model", name, "err", err)
		}
	}
	return nil
}

// trusted says whose words are orders: people's and scripts', and of those
// that the settings name.
func (r *robot) trusted(origin string) bool { return trusting(r.cfg)(origin) }

func trusting(c *config.Config) func(origin string) bool {
	return func(origin string) bool {
		for _, t := range c.Models.Trust {
			if origin == t || strings.HasPrefix(origin, t+":") {
				return true
			}
		}
		return llm.Trusted(origin)
	}
}

// lineWriter makes whole lines of what is written.
type lineWriter struct{ line func([]byte) error }

func (w lineWriter) Write(b []byte) (int, error) {
	for l := range bytes.Lines(b) {
		if err := w.line(bytes.TrimSuffix(l, []byte("\n"))); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}
