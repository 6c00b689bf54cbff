package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"edged/bus"
	"edged/bus/trace"
	"edged/cmd/edged/internal/config"
	"edged/cmd/edged/internal/control"
	"edged/starlark/lib"
	"edged/starlark/value"
	"edged/workflow"
	"edged/workflow/society"
)

// The verb inspect: what a robot consists of, from its folder or from the robot
// that runs. Nothing moves.

// inspection is what a robot consists of.
type inspection struct {
	Name      string            `json:"name"`
	Dir       string            `json:"dir"`
	Running   bool              `json:"running"`
	Scripts   lib.Summary       `json:"scripts"`
	Graphs    []drawnGraph      `json:"graphs,omitempty"`
	Societies []society.Outline `json:"societies,omitempty"`
	Warnings  []finding         `json:"warnings,omitempty"`
	Devices   []part            `json:"devices"`
	Grants    []config.Value    `json:"grants"`
	Settings  []config.Value    `json:"settings"` // that differ from the default
	Board     []bbEntry         `json:"board,omitempty"`
}

// part is a device of the robot.
type part struct {
	Name      string `json:"name"`
	Driver    string `json:"driver,omitempty"` // of the settings
	Kind      string `json:"kind,omitempty"`   // "sensor" or "actuator", once it is open
	Simulated bool   `json:"simulated,omitempty"`
}

// declared fills in what the settings say.
func (i *inspection) declared(values []config.Value) {
	i.Grants, i.Settings = []config.Value{}, []config.Value{}
	for _, v := range values {
		switch {
		case v.Source == "default" || v.Key == "devices":
		case strings.HasPrefix(v.Key, "allow."):
			i.Grants = append(i.Grants, v)
		default:
			i.Settings = append(i.Settings, v)
		}
	}
}

// made fills in what the scripts make. PerCall is how long a model takes.
func (i *inspection) made(b *lib.Behaviour, perCall time.Duration) {
	i.Scripts = b.Summary()
	i.Scripts.Workflows = neat(i.Scripts.Workflows)
	latest := map[string]workflow.Outline{}
	for _, tree := range i.Scripts.Workflows {
		eachNode(tree, func(o workflow.Outline) {
			if o.Kind == "graph" {
				latest[o.Name] = o
			}
		})
	}
	for _, g := range b.Graphs() {
		i.Graphs = append(i.Graphs, drawnGraph{Drawing: g.Draw(), Latest: latest[g.Name()]})
	}
	for _, s := range b.Societies() {
		i.Societies = append(i.Societies, s.Outline(perCall))
	}
	for _, p := range b.Check() {
		i.Warnings = append(i.Warnings, warning(p))
	}
}

// inspectFolder loads the scripts of a folder in memory: main.star, or the file
// that is named.
func inspectFolder(ctx context.Context, cfg *config.Config, perCall time.Duration, file ...string) (*inspection, error) {
	m, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()
	o := loadOptions(cfg)
	o.Entry = file
	if _, err := os.Stat(filepath.Join(cfg.Dir(), "edged.toml")); err != nil && file != nil {
		o.Grants.All = true // a script alone has no settings, and nothing of it runs
	}
	b, err := lib.Load(ctx, m.host, m.root.FS(), o)
	if err != nil {
		return nil, err
	}
	i := &inspection{Name: cfg.Name, Dir: absolute(cfg.Dir()), Devices: []part{}}
	i.made(b, perCall)
	i.declared(cfg.Values())
	for _, name := range slices.Sorted(maps.Keys(cfg.Devices)) {
		i.Devices = append(i.Devices, part{Name: name, Driver: driver(cfg, name)})
	}
	return i, b.Stop(ctx)
}

func driver(cfg *config.Config, name string) string {
	s, _ := cfg.Devices[name]["driver"].(string) // the settings were checked
	return s
}

type inspectRequest struct {
	PerCall time.Duration `json:"per_call,omitempty"`
}

func (r *robot) handleInspect(_ context.Context, with json.RawMessage, send func(any) error) error {
	var q inspectRequest
	if len(with) > 0 {
		if err := json.Unmarshal(with, &q); err != nil {
			return control.Usagef("inspect: %v", err)
		}
	}
	running, _ := r.scripts.behaviour()
	i := inspection{Name: r.cfg.Name, Dir: absolute(r.cfg.Dir()), Running: true, Devices: []part{}, Board: r.entries("")}
	i.made(running, cmp.Or(q.PerCall, callTime(r.cfg)))
	for _, d := range r.rig.Devices() {
		i.Devices = append(i.Devices, part{d.Name, driver(r.cfg, d.Name), d.Kind, d.Simulated})
	}
	i.declared(r.cfg.Values())
	return send(i)
}

func (c *cli) inspectVerb() *cobra.Command {
	var perCall time.Duration
	cmd := verb("inspect [DIR|FILE.star]", "Tell what a robot consists of", 0, 1, func(cmd *cobra.Command, args []string) error {
		i, err := c.inspect(cmd.Context(), strings.Join(args, ""), perCall)
		if err != nil {
			return err
		}
		return c.print(i, i.write)
	})
	cmd.Long = "Tells which handlers, agents, triggers and devices a robot has, what its scripts may use, and which settings differ from the default;\nof graphs, where each edge leads; of societies, who sees what on each edge, what each agent is told, with which schema and tools,\nwho speaks to whom in three rounds, how many calls of models that takes at worst, and what may be wrong. No model is asked.\nA robot that runs is asked, and tells its blackboard too; else its folder, or the one script FILE.star, is loaded in memory, with nothing that moves."
	cmd.Example = "edged inspect\nedged inspect garden\nedged inspect garden/plan.star"
	cmd.Flags().DurationVar(&perCall, "call", 0, "how long a model takes for an answer, for the warnings; as measured if missing")
	return cmd
}

// inspect asks the robot that is meant, or loads a folder or a file.
func (c *cli) inspect(ctx context.Context, path string, perCall time.Duration) (*inspection, error) {
	if strings.HasSuffix(path, ".star") {
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			cfg, err := config.Load(filepath.Dir(path), environ(), nil)
			if err != nil {
				return nil, err
			}
			return inspectFolder(ctx, cfg, cmp.Or(perCall, callTime(cfg)), filepath.Base(path))
		}
		return nil, fmt.Errorf("inspect: no file %s%s", path, nearFile(path))
	}
	cl, cfg, err := c.meant("inspect", path)
	if err != nil {
		return nil, err
	}
	if cl == nil {
		return inspectFolder(ctx, cfg, cmp.Or(perCall, callTime(cfg)))
	}
	defer cl.Close()
	i := &inspection{}
	return i, cl.Call(ctx, "inspect", inspectRequest{perCall}, i)
}

// nearFile is the script beside it that may have been meant.
func nearFile(path string) string {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.star"))
	if err != nil {
		return "" // the folder has a name that is a pattern
	}
	if near := value.Nearest(path, files); near != "" {
		return fmt.Sprintf("; did you mean %s?", near)
	}
	return ""
}

// callTime is how long a model took for an answer, by the record: the median of
// the latest thousand. 0: nothing is recorded.
func callTime(cfg *config.Config) time.Duration {
	lines, err := trace.Read(traceDir(cfg))
	if err != nil {
		return 0 // there is none
	}
	var took []float64
	for i := len(lines) - 1; i >= 0 && len(took) < 1000; i-- {
		said := struct {
			Elapsed float64
			Calls   json.RawMessage // of models in a turn; of an agent's tools
		}{}
		if json.Unmarshal(lines[i].Payload, &said) != nil || said.Elapsed <= 0 {
			continue
		}
		var calls int
		switch {
		case bus.Match("edged/agent/+/model", lines[i].Topic):
			took = append(took, said.Elapsed)
		case bus.Match(turnTopic, lines[i].Topic) && json.Unmarshal(said.Calls, &calls) == nil && calls > 0:
			took = append(took, said.Elapsed/float64(calls))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return time.Duration(took[len(took)/2] * float64(time.Second)).Round(time.Millisecond)
}

func (i *inspection) write(w io.Writer) {
	state := "not running"
	if i.Running {
		state = "running"
	}
	fmt.Fprintf(w, "%s, %s, %s\n", i.Name, state, i.Dir)
	fmt.Fprintf(w, "files     %s  (%.12s)\n", strings.Join(i.Scripts.Files, " "), i.Scripts.Hash)
	fmt.Fprintln(w, "handlers")
	for _, h := range i.Scripts.Handlers {
		fmt.Fprintf(w, "  %-10s %-28s %-20s %s\n", h.Kind, strings.Join(h.What, " "), h.Handler, h.At)
	}
	fmt.Fprintln(w, "agents")
	for _, a := range i.Scripts.Agents {
		fmt.Fprintln(w, "  "+a)
	}
	fmt.Fprintln(w, "triggers")
	for _, t := range i.Scripts.Triggers {
		fmt.Fprintf(w, "  %-20s %-28s %-20s %s\n", t.Agent, strings.Join(t.Hears, " "), t.Trigger, t.At)
	}
	for _, tree := range i.Scripts.Workflows {
		if tree.Kind != "graph" && !isEdge(tree.Kind) {
			fmt.Fprint(w, "workflow ", strings.TrimPrefix(tree.Text(), "· "))
		}
	}
	for _, g := range i.Graphs {
		fmt.Fprint(w, "graph ", strings.TrimPrefix(g.text(), "· "))
	}
	for _, s := range i.Societies {
		writeSociety(w, s)
	}
	rest := slices.DeleteFunc(slices.Clone(i.Warnings), func(f finding) bool { return strings.HasPrefix(f.Rule, "society-") })
	if len(rest) > 0 {
		fmt.Fprintln(w, "warnings")
	}
	for _, f := range rest { // those of societies stand there
		fmt.Fprintln(w, "  "+strings.ReplaceAll(f.String(), "\n", "\n  "))
	}
	fmt.Fprintln(w, "devices")
	for _, d := range i.Devices {
		kind := d.Kind
		if d.Simulated {
			kind = "simulated " + kind
		}
		fmt.Fprintf(w, "  %-20s %s\n", d.Name, cmp.Or(strings.TrimSpace(kind+" "+d.Driver), "unknown"))
	}
	fmt.Fprintln(w, "grants")
	writeValues(w, i.Grants)
	fmt.Fprintln(w, "settings that differ from the default")
	writeValues(w, i.Settings)
	if len(i.Board) > 0 {
		fmt.Fprintln(w, "board")
		dumpBoard(w, i.Board)
	}
}

func writeValues(w io.Writer, list []config.Value) {
	for _, v := range list {
		fmt.Fprintf(w, "  %-20s %-28s %s\n", v.Key, compact(v.Value), v.Source)
	}
}
