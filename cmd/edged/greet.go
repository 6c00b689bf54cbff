package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"edged/hw"
)

// What a robot says of itself when it starts.

// runLines is what a robot says of itself once it runs.
func runLines(r *robot) []string {
	b, _ := r.scripts.behaviour()
	s := b.Summary()
	lines := []string{
		fmt.Sprintf("script   %s, %.12s, %d handlers", filepath.Join(r.cfg.Dir(), "main.star"), s.Hash, len(s.Handlers)),
		"devices  " + deviceLine(r.rig),
		"broker   " + r.link.line(r.cfg),
		"models   " + r.modelLine(),
		"page     " + r.page.state().String(),
		"memory   " + r.memory.String(),
	}
	if r.dataTrouble != "" {
		lines = append(lines, "DATA     "+r.dataTrouble)
	}
	if t := r.audit.state().Trouble; t != "" {
		lines = append(lines, "AUDIT    "+t)
	}
	for _, d := range r.board.Damages() {
		lines = append(lines, "DAMAGED  blackboard: "+d.String())
	}
	if r.dry {
		lines = append(lines, "DRY      nothing will move: actuators only tell what they would do")
	}
	if record, stopped := r.rig.Stopped(); stopped {
		lines = append(lines, fmt.Sprintf("STOPPED  by %s: %s; 'edged resume' lets it move", record.Source, record.Reason))
	}
	return lines
}

// demoLines says what to try instead of how much memory there is, and the page's
// address with the token: whoever plays with the demo sits here.
func demoLines(r *robot) []string {
	var lines []string
	for _, l := range runLines(r) {
		switch what, _, _ := strings.Cut(l, " "); {
		case what == "page" && r.page.address() != "":
			lines = append(lines, "page     "+r.page.address())
		case what != "memory":
			lines = append(lines, l)
		}
	}
	return append(lines, fmt.Sprintf("edit     %s and save; space stops, Ctrl-C ends", filepath.Join(r.cfg.Dir(), "main.star")))
}

// deviceLine tells of the devices in one phrase.
func deviceLine(rig *hw.Rig) string {
	list := rig.Devices()
	simulated := 0
	for _, s := range list {
		if s.Simulated {
			simulated++
		}
	}
	switch {
	case len(list) == 0:
		return "none; [devices.NAME] in edged.toml declares one, --sim simulates an apartment"
	case simulated == 0:
		return fmt.Sprintf("%d found", len(list))
	}
	return fmt.Sprintf("%d found, %d simulated", len(list)-simulated, simulated)
}
