package lib_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// blocks are the code blocks of a page.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../doc/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(text, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// TestDocAgents: the first and the last example of the page run as they are.
func TestDocAgents(t *testing.T) {
	list := blocks(t, "agents.md")
	play(t, "-- main.star --\n"+list[0]+"\n-- main_test.star --\nload(\"main.star\", \"butler\")\n"+list[len(list)-1])
}

// TestDocLoads: the other examples of agents, sentences and memory load.
func TestDocLoads(t *testing.T) {
	r := newRig(t)
	defer r.close()
	const before = "M = \"m\"\ndef set_light(room):\n    pass\ndef open_door():\n    pass\ndef lock_door():\n    pass\n"
	for _, page := range []string{"agents.md", "intents.md", "memory.md"} {
		for i, text := range blocks(t, page) {
			if strings.Contains(text, ".run(") || strings.Contains(text, "remember(") || page == "agents.md" && i == 0 {
				text = regexp.MustCompile(`(?m)^(judge\.run|verdict\.run|remember|for f|    log|forget|memory\.).*$`).ReplaceAllString(text, "")
			}
			if strings.Contains(text, "def test_") || strings.Contains(text, "hw.device") && page == "agents.md" {
				continue
			}
			text = strings.ReplaceAll(text, "tools = […]", "tools = []")
			if page == "intents.md" && i == 1 {
				text = blocks(t, page)[0] + text
			}
			if _, err := r.try(before + text); err != nil {
				t.Errorf("%s, example %d: %s", page, i+1, shown(err))
			}
		}
	}
}
