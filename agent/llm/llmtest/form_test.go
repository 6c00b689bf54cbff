package llmtest

import "testing"

func TestValid(t *testing.T) {
	const schema = `{"type":"object","additionalProperties":false,"required":["mood"],"properties":{
		"mood":{"enum":["calm","tense"]},"level":{"type":"integer","minimum":0,"maximum":10},"ok":{"type":"boolean"},
		"say":{"type":"string","maxLength":3},"list":{"type":"array","maxItems":2,"items":{"type":"number"}}}}`
	for _, row := range []struct {
		text string
		ok   bool
	}{
		{`{"mood":"calm"}`, true},
		{` {"level":10,"mood":"tense","ok":true,"say":"äöü","list":[1,2.5]} `, true},
		{`{}`, false},
		{`[]`, false},
		{`{"mood":"calm"`, false},
		{`{"mood":"angry"}`, false},
		{`{"mood":"calm","level":11}`, false},
		{`{"mood":"calm","level":0.5}`, false},
		{`{"mood":"calm","level":"3"}`, false},
		{`{"mood":"calm","ok":1}`, false},
		{`{"mood":"calm","say":"four"}`, false},
		{`{"mood":"calm","list":[1,2,3]}`, false},
		{`{"mood":"calm","list":["1"]}`, false},
		{`{"mood":"calm","more":1}`, false},
		{`{"mood":null}`, false},
	} {
		if err := valid([]byte(schema), []byte(row.text)); (err == nil) != row.ok {
			t.Errorf("%s: got error %v, want ok %t", row.text, err, row.ok)
		}
	}
}
