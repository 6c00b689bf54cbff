package main

import (
	"fmt"
	"strings"
	"text/template"

	"edged/agent"
)

// The part of the page that needs no JavaScript: how the robot stands, its
// agents, what waits for a person, and the forms to stop it and to answer.

// markup writes HTML; what comes from elsewhere is escaped.
type markup struct{ strings.Builder }

// add writes tags with words in them.
func (m *markup) add(format string, words ...string) {
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = template.HTMLEscapeString(w)
	}
	fmt.Fprintf(m, format, args...)
}

func (r *robot) plainPage(may bool) string {
	var m markup
	s := r.status()
	m.add("<section class=\"plain\"><h2>%s: %s</h2>\n", s.Name, s.Mode)
	if s.Stop != nil {
		m.add("<p>Stopped by %s at %s: %s</p>\n", s.Stop.Source, s.Stop.Time.Local().Format("15:04:05"), s.Stop.Reason)
	}
	if s.Reload != "" {
		m.add("<p>The last edit was refused; the version before goes on.</p><pre>%s</pre>\n", s.Reload)
	}
	if may {
		m.add("<form method=\"post\" action=\"/stop\"><button>STOP</button></form>\n<form method=\"post\" action=\"/resume\"><button>Resume</button></form>\n")
	} else {
		m.add("<p>You can look, and change nothing: 'edged page' prints the address that may.</p>\n")
	}
	m.questions(r.questions(), may)
	if may && len(s.Scripts.Agents) > 0 {
		m.add("<form method=\"post\" action=\"/ask\"><label>Say <input name=\"text\" required></label> <button>Send</button></form>\n")
	}
	m.add("<h2>Agents</h2>\n<ul>\n")
	for _, c := range r.cards() {
		state := c.State
		switch {
		case c.Busy:
			state = "busy"
		case c.Status != "" && c.Status != string(agent.Done):
			state = c.Status + ": " + c.Reason
		}
		m.add("<li><b>%s</b> %s %s</li>\n", c.Name, state, c.Reply)
	}
	m.add("</ul>\n<p><a href=\"/\">Look again</a></p></section>\n")
	return m.String()
}

// questions writes what waits for a person, each with its form.
func (m *markup) questions(q questions, may bool) {
	if len(q.Confirm)+len(q.Answer) == 0 {
		return
	}
	m.add("<h2>Questions to you</h2>\n")
	for _, one := range q.Confirm {
		m.add("<p>%s</p>\n", one.Words)
		if one.Origin != "" {
			m.add("<p>because of words of %s</p>\n", one.Origin)
		}
		if may {
			m.add("<form method=\"post\" action=\"/confirm\"><input type=\"hidden\" name=\"id\" value=\"%s\"><button name=\"yes\" value=\"yes\">Allow</button> <button name=\"yes\" value=\"no\">Refuse</button></form>\n", one.ID)
		}
	}
	for _, one := range q.Answer {
		m.add("<p>%s (%s)</p>\n", one.Words, one.Wait)
		if !may {
			continue
		}
		m.add("<form method=\"post\" action=\"/answer\"><input type=\"hidden\" name=\"id\" value=\"%s\">", one.ID)
		switch {
		case len(one.Options) > 0:
			for _, o := range one.Options {
				m.add("<button name=\"answer\" value=\"%s\">%s</button> ", o, o)
			}
		case len(one.Form) > 0:
			m.add("<p>JSON of the schema <code>%s</code></p><textarea name=\"answer\" required aria-label=\"Answer\"></textarea> <button>Answer</button>", string(one.Form))
		default:
			m.add("<input name=\"answer\" required aria-label=\"Answer\"> <button>Answer</button>")
		}
		m.add("</form>\n")
	}
}
