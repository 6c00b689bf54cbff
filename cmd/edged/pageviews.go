package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"edged/cmd/edged/internal/control"
	"edged/cmd/edged/internal/web"
)

// What the page shows besides what verbs tell: the map of a simulated world,
// and the text behind a line.

func (r *robot) pageViews() map[string]web.Route {
	return map[string]web.Route{
		"GET /api/v1/map":    {Do: r.handleMap},
		"GET /api/v1/source": {Do: r.handleSource, With: func(q *web.Query) (any, error) { return sourceRequest{q.Get("file")}, nil }},
	}
}

// handleMap sends the world that is simulated.
func (r *robot) handleMap(_ context.Context, _ json.RawMessage, send func(any) error) error {
	if r.devices.world == nil {
		return errors.New("map: this robot's world is not simulated")
	}
	return send(r.devices.world.Map())
}

type sourceRequest struct {
	File string `json:"file"`
}

// handleSource sends the text of a script as it was loaded. Other files have no
// text here.
func (r *robot) handleSource(_ context.Context, with json.RawMessage, send func(any) error) error {
	var q sourceRequest
	if err := json.Unmarshal(with, &q); err != nil {
		return control.Usagef("source: %v", err)
	}
	running, _ := r.scripts.behaviour()
	text, ok := running.Text(q.File)
	if !ok {
		return fmt.Errorf("source: no script %q%s", q.File, perhaps(q.File, running.Summary().Files))
	}
	return send(map[string]string{"file": q.File, "text": text})
}
