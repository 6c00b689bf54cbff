package ollama

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"edged/agent/llm"
)

// trouble adds a remedy to an error of the server's; others stay as they are.
func (m *Model) trouble(err error) error { return m.s.trouble(m.Name(), m.name, err) }

func (s *Server) trouble(name, model string, err error) error {
	var already *llm.Trouble
	if err == nil || errors.As(err, &already) {
		return err
	}
	remedy := s.remedy(model, err)
	if remedy == "" {
		return err
	}
	return &llm.Trouble{Err: err, Model: name, Remedy: remedy}
}

func (s *Server) remedy(model string, err error) string {
	is := func(e error) bool { return errors.Is(err, e) }
	says := func(words string) bool { return strings.Contains(err.Error(), words) }
	switch {
	case is(context.DeadlineExceeded):
		return "give it more time or a smaller model; if it never answers, start `ollama serve` again: a stream that was left can wedge it"
	case is(llm.ErrDown):
		return fmt.Sprintf("is `ollama serve` running at %s? OLLAMA_HOST says where", s.URL())
	case is(llm.ErrUnknownModel):
		return fmt.Sprintf("`edged model pull %s` fetches it once, `edged model list` shows what is there", model)
	case is(llm.ErrNoTools):
		return "use a model with tools, see `edged model show`; without, calls are asked for in a schema"
	case is(llm.ErrNoThinking):
		return "leave think away, or use a model that thinks"
	case is(llm.ErrNoEmbedding):
		return "use a model for that: all-minilm or nomic-embed-text"
	case is(llm.ErrCutOff):
		return "raise max_tokens, or ask for less"
	case is(llm.ErrNoDone):
		return "the model repeats itself or died: try again with another seed, or bound every string of the schema"
	case is(llm.ErrEmpty):
		return "it called a tool that was not offered, or only thought: offer fewer tools, say which there are"
	case is(llm.ErrSchema):
		return "try again, or use a larger model"
	case is(llm.ErrBadSchema):
		return "use types, enums and limits only"
	case is(llm.ErrContext):
		return fmt.Sprintf("shorten instructions and tools, start a fresh session, or raise num_ctx (now %d)", s.o.Context)
	case is(llm.ErrQueueFull):
		return "ask less often, or raise OLLAMA_MAX_QUEUE"
	case is(llm.ErrMemory):
		return "use a smaller model or num_ctx, or unload others"
	case !is(llm.ErrServer):
		return ""
	case says("unexpectedly stopped"), says("runner process"), says("encountered while running"):
		return "the next request loads the model again; if it recurs, a smaller model or num_ctx helps"
	case says("does not support chat"):
		return "this one is for embeddings only: use another to talk to"
	case says("no such host"), says("pull model manifest"):
		return "this machine has no way to the registry: pull where there is one, or `ollama create` from a file"
	}
	return "the server's own log says more"
}
