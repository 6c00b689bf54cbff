package openai

import (
	"errors"
	"fmt"
	"strings"

	"edged/agent/llm"
)

// trouble adds a remedy to an error of the server's; others stay as they are.
func (m *Model) trouble(err error) error {
	var already *llm.Trouble
	if err == nil || errors.As(err, &already) {
		return err
	}
	if errors.Is(err, llm.ErrNoTools) {
		m.mu.Lock()
		m.tools = true
		m.mu.Unlock()
	}
	remedy := m.remedy(err)
	if remedy == "" {
		return err
	}
	return &llm.Trouble{Err: err, Model: m.Name(), Remedy: remedy}
}

func (m *Model) remedy(err error) string {
	is := func(e error) bool { return errors.Is(err, e) }
	says := func(words string) bool { return strings.Contains(strings.ToLower(err.Error()), words) }
	switch {
	case is(llm.ErrDown) && says("loading"):
		return "it is still loading the model: try again soon"
	case is(llm.ErrDown):
		return fmt.Sprintf("is the server running at %s?", m.o.URL)
	case is(llm.ErrUnknownModel):
		return "take a name from the server's list of models"
	case is(llm.ErrNoTools):
		return "start llama-server with --jinja, vLLM with --enable-auto-tool-choice; without, calls are asked for in a schema"
	case is(llm.ErrNoThinking):
		return "leave think away, or use a model that thinks"
	case is(llm.ErrNoEmbedding):
		return "start the server with --embeddings, or use a model for that"
	case is(llm.ErrCutOff):
		return "raise max_tokens, or ask for less"
	case is(llm.ErrNoDone):
		return "the model repeats itself or the server died: try again with another seed"
	case is(llm.ErrEmpty):
		return "it called a tool that was not offered, or only thought: offer fewer tools, say which there are"
	case is(llm.ErrSchema):
		return "try again, or use a larger model"
	case is(llm.ErrBadSchema):
		return "use types, enums and limits only; does this server know response_format?"
	case is(llm.ErrContext):
		return "shorten instructions and tools, start a fresh session, or start the server with a larger context"
	case is(llm.ErrQueueFull):
		return "ask less often, or give the server more slots"
	case is(llm.ErrMemory):
		return "use a smaller model or context"
	case !is(llm.ErrServer):
		return ""
	case says("unauthorized"), says("api key"), says("api_key"), says("forbidden"), says("authentication"):
		return "the server wants a key, or another one"
	case says("not found"), says("not understood"):
		return fmt.Sprintf("does %s end with /v1, and is it such a server?", m.o.URL)
	}
	return "the server's own log says more"
}
