package ollama

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"github.com/ollama/ollama/api"

	"edged/agent/llm"
	"edged/agent/llm/wire"
)

// Installed is a model that the server has on its disk.
type Installed struct {
	Name         string    `json:"name"`
	Size         int64     `json:"size"` // bytes
	Modified     time.Time `json:"modified"`
	Family       string    `json:"family,omitempty"`
	Parameters   string    `json:"parameters,omitempty"`   // "1.5B"
	Quantization string    `json:"quantization,omitempty"` // "Q4_K_M"
	Loaded       bool      `json:"loaded"`                 // in memory now
}

// Details is what the server says of one model.
type Details struct {
	Installed
	Capabilities []string `json:"capabilities"` // "completion", "tools", "thinking", "embedding", "vision"
	Context      int      `json:"context"`      // tokens it was trained for
	Settings     string   `json:"settings,omitempty"`
	Template     string   `json:"template,omitempty"`
	System       string   `json:"system,omitempty"`
	License      string   `json:"license,omitempty"`
}

// Progress of a pull; Total is 0 where a step has no size.
type Progress struct {
	Status           string
	Digest           string
	Total, Completed int64
}

// List gives the installed models by name.
func (s *Server) List(ctx context.Context) ([]Installed, error) {
	var tags api.ListResponse
	var ps api.ProcessResponse
	if err := s.wire.JSON(ctx, "GET", "/api/tags", nil, &tags); err != nil {
		return nil, s.trouble("", "NAME", err)
	}
	if err := s.wire.JSON(ctx, "GET", "/api/ps", nil, &ps); err != nil {
		return nil, s.trouble("", "NAME", err)
	}
	list := make([]Installed, 0, len(tags.Models))
	for _, t := range tags.Models {
		in := Installed{Name: t.Name, Size: t.Size, Modified: t.ModifiedAt}
		in.details(t.Details)
		in.Loaded = slices.ContainsFunc(ps.Models, func(p api.ProcessModelResponse) bool { return sameModel(p.Name, t.Name) })
		list = append(list, in)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

func (in *Installed) details(d api.ModelDetails) {
	in.Family, in.Parameters, in.Quantization = d.Family, d.ParameterSize, d.QuantizationLevel
}

// Show tells about one model.
func (s *Server) Show(ctx context.Context, name string) (Details, error) {
	var r api.ShowResponse
	if err := s.wire.JSON(ctx, "POST", "/api/show", api.ShowRequest{Model: name}, &r); err != nil {
		return Details{}, s.trouble("ollama:"+name, name, err)
	}
	d := Details{Settings: r.Parameters, Template: r.Template, System: r.System, License: r.License}
	d.Name, d.Modified = name, r.ModifiedAt
	d.details(r.Details)
	for _, c := range r.Capabilities {
		d.Capabilities = append(d.Capabilities, string(c))
	}
	arch, _ := r.ModelInfo["general.architecture"].(string)
	if n, ok := r.ModelInfo[arch+".context_length"].(float64); ok {
		d.Context = int(n)
	}
	return d, nil
}

// Pull fetches a model from the registry; nothing else in edged does. Its
// progress is told on the caller's goroutine; an error of progress ends the
// pull. What was fetched of a pull that was cut short is kept by the server.
func (s *Server) Pull(ctx context.Context, name string, progress func(Progress) error) error {
	return s.trouble("ollama:"+name, name, s.pull(ctx, name, progress))
}

func (s *Server) pull(ctx context.Context, name string, progress func(Progress) error) error {
	resp, err := s.wire.Do(ctx, "POST", "/api/pull", api.PullRequest{Model: name})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := wire.NewLines(resp.Body)
	for {
		line, err := lines.Next()
		switch {
		case err == io.EOF && ctx.Err() == nil:
			return fmt.Errorf("ollama: %w: the pull ended early", llm.ErrServer)
		case err != nil || ctx.Err() != nil:
			return s.wire.Broken(ctx, err)
		}
		var p struct {
			api.ProgressResponse
			Error string
		}
		if err := json.Unmarshal(line, &p); err != nil {
			return fmt.Errorf("ollama: %w: this is no progress: %s", llm.ErrServer, wire.Excerpt(string(line), 80))
		}
		if p.Error != "" {
			return s.wire.Refused(0, p.Error)
		}
		if progress != nil {
			if err := progress(Progress{p.Status, p.Digest, p.Total, p.Completed}); err != nil {
				return err
			}
		}
		if p.Status == "success" {
			return nil
		}
	}
}

// Remove deletes a model from the server's disk.
func (s *Server) Remove(ctx context.Context, name string) error {
	err := s.wire.JSON(ctx, "DELETE", "/api/delete", api.DeleteRequest{Model: name}, nil)
	return s.trouble("ollama:"+name, name, err)
}
