package llm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"edged/agent"
	"edged/agent/llm/schema"
)

// InputGuardrail looks at a task before anything else; its error blocks the
// run, and reply is what is said then. An error that wraps a sentinel of
// package agent gives the outcome.
func InputGuardrail(reply string, check func(ctx context.Context, t agent.Task) error) Hook {
	return Hook{
		Name: "input_guardrail", Priority: PrioritySafety, Safety: true,
		OnRunStart: func(ctx context.Context, s *Step) error {
			if err := check(ctx, s.Task); err != nil {
				return blocked(reply, err)
			}
			return nil
		},
	}
}

// OutputGuardrail looks at every answer in words before it is said; its error
// blocks the run, and reply is said instead.
func OutputGuardrail(reply string, check func(ctx context.Context, text string) error) Hook {
	return Hook{
		Name: "output_guardrail", Priority: PrioritySafety, Safety: true, Whole: true,
		AfterModel: func(ctx context.Context, s *Step) error {
			if len(s.Answer.Calls) > 0 && s.Answer.Text == "" {
				return nil
			}
			if err := check(ctx, s.Answer.Text); err != nil {
				return blocked(reply, err)
			}
			return nil
		},
	}
}

func blocked(reply string, err error) error {
	if agent.StatusOf(err) == agent.Failed && !errors.Is(err, agent.ErrFailed) {
		err = fmt.Errorf("%w: %w", agent.ErrBlocked, err)
	}
	return &End{Reply: reply, Err: err}
}

// NoneOf is a check that refuses texts with one of these words or phrases.
// Whole words count: "arm" does not refuse "alarm".
func NoneOf(phrases ...string) func(ctx context.Context, text string) error {
	list := make([]string, 0, len(phrases))
	for _, p := range phrases {
		list = append(list, " "+wordsOf(p)+" ")
	}
	return func(_ context.Context, text string) error {
		words := " " + wordsOf(text) + " "
		for i, p := range list {
			if strings.Contains(words, p) {
				return fmt.Errorf("%q is not for this agent", phrases[i])
			}
		}
		return nil
	}
}

// wordsOf gives the words in lower case, one blank between them.
func wordsOf(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ")
}

// MaxLength cuts an answer after the last sentence that ends within n bytes.
func MaxLength(n int) Hook {
	return Hook{
		Name: "max_length", Priority: PriorityRepair, Whole: true,
		AfterModel: func(_ context.Context, s *Step) error {
			if len(s.Answer.Text) <= n || s.Request.Schema != nil {
				return nil
			}
			kept := ""
			for _, one := range Sentences(s.Answer.Text) {
				if len(kept)+1+len(one) > n {
					break
				}
				kept = strings.TrimSpace(kept + " " + one)
			}
			if kept == "" {
				kept = clip(s.Answer.Text, max(n-len("…"), 0))
			}
			s.Answer.Text = kept
			return nil
		},
	}
}

// NoPersonalData puts "(removed)" in place of e-mail addresses, telephone,
// card and account numbers in answers.
func NoPersonalData() Hook {
	mail := regexp.MustCompile(`[\w.+-]+@[\w-]+(\.[\w-]+)+`)
	account := regexp.MustCompile(`\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`)
	digits := regexp.MustCompile(`\+?\d(?:[\d ()./-]{5,20})\d`)
	return Hook{
		Name: "no_personal_data", Priority: PrioritySafety, Safety: true, Whole: true,
		AfterModel: func(_ context.Context, s *Step) error {
			text := mail.ReplaceAllString(s.Answer.Text, "(removed)")
			text = account.ReplaceAllString(text, "(removed)")
			s.Answer.Text = digits.ReplaceAllStringFunc(text, func(found string) string {
				if n := len(strings.Map(onlyDigits, found)); n >= 9 || strings.HasPrefix(found, "+") && n >= 7 ||
					n >= 7 && strings.ContainsAny(found, "-()/") && !isDate(found) {
					return "(removed)"
				}
				return found
			})
			return nil
		},
	}
}

func onlyDigits(r rune) rune {
	if r < '0' || r > '9' {
		return -1
	}
	return r
}

// isDate reports whether digits look like 2026-11-21 or 21/11/2026.
func isDate(s string) bool {
	ok, _ := regexp.MatchString(`^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})$`, s)
	return ok
}

// SchemaCheck fails a run whose answer is not JSON of a schema.
func SchemaCheck(s *schema.Schema) Hook {
	return Hook{
		Name: "schema_check", Priority: PriorityRepair, Whole: true,
		AfterModel: func(_ context.Context, st *Step) error {
			if len(st.Answer.Calls) > 0 {
				return nil
			}
			_, text, err := s.Accept([]byte(unfence(st.Answer.Text)))
			if err != nil {
				return &End{Err: fmt.Errorf("%w: %w: %w", agent.ErrFailed, ErrSchema, err)}
			}
			st.Answer.Text = string(text)
			return nil
		},
	}
}
