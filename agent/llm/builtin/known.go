package builtin

import "encoding/json"

// KnownKey is the key in a model's file that holds its Known as JSON.
const KnownKey = "edged.known"

// Known is what a model was trained for.
type Known struct {
	Robot   string      `json:"robot"`
	Tools   []KnownTool `json:"tools"`
	Replies Replies     `json:"replies,omitzero"`
	Words   []string    `json:"words,omitempty"` // all that it was told in training
}

// tool finds a tool; nil if the model does not know it.
func (k *Known) tool(name string) *KnownTool {
	for i := range k.Tools {
		if k.Tools[i].Name == name {
			return &k.Tools[i]
		}
	}
	return nil
}

// KnownTool is a tool that a model was trained for.
type KnownTool struct {
	Name   string          `json:"name"`
	Doc    string          `json:"doc"`
	Params json.RawMessage `json:"params,omitempty"`
	Motion bool            `json:"motion,omitempty"` // it moves something
	// Values lists per parameter what may be meant without being said, as JSON
	// texts; all else that is free must be copied from the text.
	Values map[string][]string `json:"values,omitempty"`
	Begins []string            `json:"begins,omitempty"` // words that its phrases begin with
	Tails  []string            `json:"tails,omitempty"`  // parameters whose text runs to the end of what is said
	Words  []string            `json:"words,omitempty"`  // Content of its phrases
	Sure   float64             `json:"sure,omitempty"`   // how likely a call must be; 0 = as usual
}
