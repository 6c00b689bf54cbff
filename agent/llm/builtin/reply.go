package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Replies are the sentences that close a turn; an empty one is the English one.
// They are made by rule: a model of this size would add nothing but mistakes.
type Replies struct {
	Done   string `json:"done,omitempty"`   // "Done."
	Failed string `json:"failed,omitempty"` // "That did not work: %s."
	Value  string `json:"value,omitempty"`  // "It reads %s."
}

// Sentence makes a sentence of a tool's result, JSON or plain text.
func (r Replies) Sentence(result string) string {
	or := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	result = strings.TrimSpace(result)
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(result)))
	d.UseNumber()
	if d.Decode(&v) != nil || d.More() {
		v = result
	}
	failed := or(r.Failed, "That did not work: %s.")
	switch v := v.(type) {
	case bool:
		if !v {
			return strings.TrimSuffix(strings.TrimSuffix(failed, ": %s."), "%s") + "."
		}
	case json.Number:
		return fmt.Sprintf(or(r.Value, "It reads %s."), v.String())
	case string:
		if why, ok := strings.CutPrefix(v, "error:"); ok {
			return fmt.Sprintf(failed, strings.TrimSuffix(strings.TrimSpace(why), "."))
		}
		switch {
		case v == "" || v == "ok" || v == "done":
		case !strings.ContainsFunc(v, unicode.IsDigit): // words are no reading, but an answer
			first, n := utf8.DecodeRuneInString(v)
			v = string(unicode.ToUpper(first)) + v[n:]
			if !strings.ContainsAny(v[len(v)-1:], ".!?") {
				v += "."
			}
			return v
		default:
			return fmt.Sprintf(or(r.Value, "It reads %s."), v)
		}
	case map[string]any:
		if why, ok := v["error"].(string); ok {
			return fmt.Sprintf(failed, strings.TrimSuffix(why, "."))
		}
		if x, ok := v["value"]; ok && x != nil {
			unit, _ := v["unit"].(string)
			return fmt.Sprintf(or(r.Value, "It reads %s."), strings.TrimSpace(fmt.Sprint(x)+" "+unit))
		}
	}
	return or(r.Done, "Done.")
}

// failure reports whether a tool's result tells of an error, and which.
func failure(result string) (why string, failed bool) {
	result = strings.TrimSpace(result)
	var o struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(result), &o) == nil && o.Error != "" {
		return o.Error, true
	}
	var text string
	if json.Unmarshal([]byte(result), &text) != nil {
		text = result
	}
	why, failed = strings.CutPrefix(text, "error:")
	return strings.TrimSpace(why), failed
}
