package script

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

const (
	globalsHint = "globals are read-only after start; keep state in `bb` or `ctx`"
	frozenHint  = "globals are read-only after start, and so is what a function is given: change a copy, or keep state in `bb` or `ctx`"
)

func limitHint(e *LimitError) string {
	switch e.Limit {
	case "steps", "time":
		return "a handler does a little and returns; wait with sleep or wait_for, not in a loop"
	case "depth":
		return "is there a function that calls itself for ever?"
	case "memory":
		return "is there a list or text that grows in a loop?"
	}
	return ""
}

// rewrite is a message of the interpreter and what to add to it. In the hint,
// $1 is the pattern's first group.
type rewrite struct {
	pattern *regexp.Regexp
	hint    string
}

// rewrites are made when the first script fails.
var rewrites = sync.OnceValue(func() []rewrite {
	return []rewrite{
		{re(`^cannot .*frozen|frozen (list|dict|set|hash table)|during iteration of frozen`), frozenHint},
		{re(`^cannot .* during iteration$`), "go over a copy: for x in list(xs)"},
		{re(`^local variable (\w+) referenced before assignment`), "$1 is assigned in this function, so it is local to it; " + globalsHint},
		{re(`^global variable (\w+) referenced before assignment`), "$1 is defined further down; move it up or use it in a function that runs later"},
		{re(`^key (".*") not in dict`), "use .get($1, default) where the key may be missing"},
		{re(`^dict has no \.(\w+) field or method`), `write ["$1"] for a key of a dict`},
		{re(`^unknown binary op: (?:string \+ (?:int|float)|(?:int|float) \+ string)`), `write str(x), or "%s" % x`},
		{re(`^(?:for loop: |.*)string (?:value )?is not iterable|got string, want iterable`), "go over s.elems(), or s.split()"},
		{re(`^string has no \.(format_map|zfill|ljust|rjust|center)\b`), `use "%…" formatting, such as "%d" % n`},
		{re(`^list has no \.sort\b`), "xs = sorted(xs) makes a sorted copy"},
		{re(`^list has no \.reverse\b`), "xs = reversed(xs) makes a reversed copy"},
		{re(`^list has no \.copy\b`), "list(xs) makes a copy"},
		{re(`^list has no \.count\b`), "len([x for x in xs if x == y]) counts"},
		{re(`^dict has no \.copy\b`), "dict(d) makes a copy"},
		{re(`^dict has no \.(iteritems|has_key)\b`), "for k, v in d.items(); key in d"},
		{re(`^invalid call of non-function \((.*)\)`), "only functions can be called; is a name used twice?"},
		{re(` does not associate with `), "write a < b and b < c"},
		{re(`^got ',', want ':'`), "a set is set([1, 2]); a dict has key: value"},
		{re(`^got .*, want '[)\]}]'|^got .*, want '[)\]}]', for, or if`), "is a bracket left open, or a comma missing?"},
		{re(`^got indent, want|^unindent does not match`), "check the indentation: a block is indented the same throughout"},
		{re(`^got outdent, want|^got newline, want indent|^got .*, want indent`), "a block has at least one line, indented; write pass if it does nothing"},
		{re(`^unexpected (?:newline|EOF) in string`), "the string has no end; text of several lines is in \"\"\""},
		{re(`^floored division by zero|^floating-point division by zero|^integer modulo by zero`), "check the divisor first"},
	}
})

// hint splits what the interpreter already suggests from a message, and adds
// what it does not.
func hint(msg string) (string, string) {
	own := ""
	if i := strings.LastIndex(msg, " (did you mean "); i >= 0 && strings.HasSuffix(msg, "?)") {
		name := strings.TrimSuffix(msg[i+len(" (did you mean "):], "?)")
		own = fmt.Sprintf("did you mean %q?", strings.TrimPrefix(name, "."))
		msg = msg[:i]
	}
	if name, ok := strings.CutPrefix(msg, "undefined: "); ok {
		if h := pythonNames[name]; h != "" {
			return msg, h
		}
		return msg, own
	}
	for _, r := range rewrites() {
		if m := r.pattern.FindStringSubmatchIndex(msg); m != nil && own == "" {
			return msg, string(r.pattern.ExpandString(nil, r.hint, msg, m))
		}
	}
	return msg, own
}

// pythonNames are names of Python and its relatives that scripts do not have.
var pythonNames = map[string]string{
	"true": "write True", "false": "write False",
	"null": "write None", "nil": "write None", "undefined": "write None", "none": "write None",
	"isinstance":    `write type(x) == "int"`,
	"map":           "write [f(x) for x in xs]",
	"filter":        "write [x for x in xs if f(x)]",
	"reduce":        "write a for loop",
	"sum":           "write a for loop: total += x",
	"round":         "write int(x + 0.5), or math.round(x)",
	"pow":           "write math.pow(x, y)",
	"divmod":        "write a // b and a % b",
	"open":          "scripts have no files; use store for the robot's own data",
	"input":         "scripts have no keyboard; use on(…) for events",
	"eval":          "scripts cannot make code from text; use json.decode for data",
	"exec":          "scripts cannot make code from text; put it in a module and load it",
	"compile":       "scripts cannot make code from text; put it in a module and load it",
	"object":        "there are no classes; use a dict or struct",
	"super":         "there are no classes; use a dict or struct",
	"self":          "there are no classes; pass what a function needs as an argument",
	"this":          "there are no classes; pass what a function needs as an argument",
	"property":      "there are no classes; write a function",
	"Exception":     "end with fail(\"…\"); catch with attempt(f)",
	"ValueError":    "end with fail(\"…\"); catch with attempt(f)",
	"os":            "scripts have no os module; see `edged doc` for what there is",
	"sys":           "scripts have no sys module; see `edged doc` for what there is",
	"asyncio":       "handlers may simply wait: sleep(\"1s\")",
	"threading":     "handlers run in parallel by themselves; use on(…), every(…)",
	"random":        "there is no random module; see `edged doc` for what there is",
	"requests":      "scripts reach the world by events and tools; see `edged doc`",
	"iter":          "write for x in xs",
	"next":          "write for x in xs",
	"globals":       frozenHint,
	"locals":        "pass what a function needs as an argument",
	"setattr":       "use a dict and d[name] = value",
	"frozenset":     "write set(xs), or a tuple",
	"bytearray":     "write bytes(xs)",
	"complex":       "there are no complex numbers",
	"id":            "compare with ==",
	"assert":        "write: if not cond: fail(\"…\")",
	"OpenAI":        "Agent(…, model = \"openai:NAME@http://host:port/v1\")",
	"ChatOpenAI":    "Agent(…, model = \"openai:NAME@http://host:port/v1\")",
	"ChatOllama":    "Agent(…, model = \"ollama:NAME\")",
	"ollama":        "Agent(…, model = \"ollama:NAME\"), or model.ask(text, model = …)",
	"openai":        "model.ask(text, model = \"openai:NAME@http://host:port/v1\")",
	"tool":          "Tool(fn), or the function itself in tools = [fn]",
	"function_tool": "Tool(fn), or the function itself in tools = [fn]",
	"console":       "write log.info(\"…\") or print(\"…\")",
}
