package intent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// This file fills in answers: "{place}" as it was said, "{place.value}" as the
// tool got it, "{result}" and "{result.key}" of what the tool gave back.

// response checks an intent's answer template.
func (c *compiler) response(in Intent) error {
	pos := 0
	for {
		open := strings.IndexByte(in.Response[pos:], '{')
		if open < 0 {
			return nil
		}
		open += pos
		end := strings.IndexByte(in.Response[open:], '}')
		bad := func(format string, args ...any) error {
			return &Error{Intent: in.Name, Text: in.Response, Pos: open, Msg: fmt.Sprintf(format, args...)}
		}
		if end < 0 {
			return bad(`this "{" is never closed with "}"`)
		}
		name, key, _ := strings.Cut(in.Response[open+1:open+end], ".")
		switch {
		case name == "result" && in.Tool == "":
			return bad("{result} of an intent that calls no tool")
		case name == "result":
		case !c.slots[name]:
			known := []string{"result"}
			for s := range c.slots {
				known = append(known, s)
			}
			slices.Sort(known)
			return bad("the answer names {%s}, which no sentence has%s", name, meant(name, known, "{", "}", "there are "+strings.Join(known, ", ")))
		case key != "" && key != "value":
			return bad("{%s.%s}: a slot has only .value", name, key)
		}
		pos = open + end
	}
}

// Answer fills in the match's response. result is what the tool gave, JSON;
// nil if no tool ran. A slot that the sentence did not fill is left out.
func (r Match) Answer(result json.RawMessage) string {
	var value any
	if len(result) > 0 && json.Unmarshal(result, &value) != nil {
		value = string(result)
	}
	if r.Response == "" {
		return spoken(value)
	}
	var b strings.Builder
	rest := r.Response
	for {
		before, after, ok := strings.Cut(rest, "{")
		b.WriteString(before)
		if !ok {
			break
		}
		var ref string
		ref, rest, _ = strings.Cut(after, "}")
		name, key, sub := strings.Cut(ref, ".")
		switch said, has := r.Said[name]; {
		case name == "result":
			v := value
			if sub {
				for _, k := range strings.Split(key, ".") {
					m, _ := v.(map[string]any)
					v = m[k]
				}
			}
			b.WriteString(spoken(v))
		case has && !sub:
			b.WriteString(said)
		default:
			b.WriteString(spoken(r.Slots[name]))
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer(" .", ".", " ,", ",", " ?", "?", " !", "!").Replace(text)
}

// spoken is a JSON value in a sentence.
func spoken(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
