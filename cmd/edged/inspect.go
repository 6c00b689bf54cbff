package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edged/cmd/edged/internal/config"
	"edged/starlark/lib"
)

// The verb inspect: what a robot consists of, from its folder or from the robot
// that runs. Nothing moves.

// inspection is what a robot consists of.
type inspection struct {
	Name     string         `json:"name"`
	Dir      string         `json:"dir"`
	Running  bool           `json:"running"`
	Scripts  lib.Summary    `json:"scripts"`
	Devices  []part         `json:"devices"`
	Grants   []config.Value `json:"grants"`
	Settings []config.Value `json:"settings"` // that differ from the default
	Board    []bbEntry      `json:"board,omitempty"`
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

// inspectFolder loads the scripts of a folder in memory.
func inspectFolder(ctx context.Context, cfg *config.Config) (*inspection, error) {
	m, err := openModel(cfg)
	if err != nil {
		return nil, err
	}
	defer m.close()
	b, err := lib.Load(ctx, m.host, m.root.FS(), loadOptions(cfg))
	if err != nil {
		return nil, err
	}
	i := &inspection{Name: cfg.Name, Dir: absolute(cfg.Dir()), Scripts: b.Summary(), Devices: []part{}}
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

func (r *robot) handleInspect(_ context.Context, _ json.RawMessage, send func(any) error) error {
	running, _ := r.scripts.behaviour()
	i := inspection{
		Name: r.cfg.Name, Dir: absolute(r.cfg.Dir()), Running: true, Scripts: running.Summary(),
		Devices: []part{}, Board: r.entries(""),
	}
	for _, d := range r.rig.Devices() {
		i.Devices = append(i.Devices, part{d.Name, driver(r.cfg, d.Name), d.Kind, d.Simulated})
	}
	i.declared(r.cfg.Values())
	return send(i)
}

func (c *cli) inspectVerb() *cobra.Command {
	cmd := verb("inspect [DIR]", "Tell what a robot consists of", 0, 1, func(cmd *cobra.Command, args []string) error {
		cl, cfg, err := c.meant("inspect", strings.Join(args, ""))
		if err != nil {
			return err
		}
		i := &inspection{}
		if cl != nil {
			defer cl.Close()
			err = cl.Call(cmd.Context(), "inspect", nil, i)
		} else {
			i, err = inspectFolder(cmd.Context(), cfg)
		}
		if err != nil {
			return err
		}
		return c.print(i, i.write)
	})
	cmd.Long = "Tells which handlers, agents, triggers and devices a robot has, what its scripts may use, and which settings differ from the default.\nA robot that runs is asked, and tells its blackboard too; else its folder is loaded in memory, with nothing that moves."
	return cmd
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
