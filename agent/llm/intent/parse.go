package intent

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"edged/agent/llm/intent/fold"
)

// This file reads templates into trees.

type kind uint8

const (
	kText kind = iota
	kSeq
	kAlt
	kPerm
	kList
	kRule
)

type node struct {
	kind  kind
	text  string  // of text; the name of a list or rule
	slot  string  // of a list
	glued bool    // of a list: letters stand directly before or behind it
	pos   int     // in the template
	items []*node // of seq, alt, perm
}

type parser struct {
	src string
	i   int
	in  string // whose template, for errors
}

func (p *parser) fail(pos int, format string, args ...any) error {
	return &Error{Intent: p.in, Text: p.src, Pos: pos, Msg: fmt.Sprintf(format, args...)}
}

// parse reads a whole template.
func parse(owner, src string) (*node, error) {
	p := &parser{src: src, in: owner}
	if !utf8.ValidString(src) {
		return nil, p.fail(0, "the sentence is not UTF-8 text")
	}
	if len(src) > 4096 {
		return nil, p.fail(0, "the sentence is longer than 4096 bytes: make several of it")
	}
	n, err := p.group(0, 0, 0)
	if err != nil {
		return nil, err
	}
	return n, nil
}

// group reads until the closing delimiter; 0 is the end of the template.
func (p *parser) group(closer byte, open, depth int) (*node, error) {
	if depth > 32 {
		return nil, p.fail(open, "groups are nested deeper than 32")
	}
	var branches []*node
	cur := &node{kind: kSeq, pos: p.i}
	var sep byte
	for p.i < len(p.src) {
		ch := p.src[p.i]
		switch ch {
		case closer:
			if closer == 0 {
				return nil, p.fail(p.i, "a zero byte")
			}
			p.i++
			return closed(branches, cur, sep), nil
		case '(', '[':
			n, err := p.bracket(ch, depth)
			if err != nil {
				return nil, err
			}
			cur.items = append(cur.items, n)
		case '{', '<':
			n, err := p.reference(ch)
			if err != nil {
				return nil, err
			}
			cur.items = append(cur.items, n)
		case ')', ']', '}', '>':
			return nil, p.fail(p.i, "%q closes nothing here; write \\%c if the sign itself is meant", ch, ch)
		case '|', ';':
			if sep != 0 && sep != ch {
				return nil, p.fail(p.i, "%q and %q in one group: put the inner one in its own ( )", sep, ch)
			}
			if ch == ';' && closer == 0 {
				cur.items = append(cur.items, &node{kind: kText, text: " ", pos: p.i}) // punctuation outside a group
				p.i++
				continue
			}
			sep = ch
			branches, cur = append(branches, cur), &node{kind: kSeq, pos: p.i + 1}
			p.i++
		default:
			cur.items = append(cur.items, p.chunk())
		}
	}
	if closer != 0 {
		return nil, p.fail(open, "this %q is never closed with %q", p.src[open], closer)
	}
	return closed(branches, cur, sep), nil
}

// closed makes one node of the branches of a group.
func closed(branches []*node, last *node, sep byte) *node {
	if sep == 0 {
		return last
	}
	k := kAlt
	if sep == ';' {
		k = kPerm
	}
	branches = append(branches, last)
	return &node{kind: k, items: branches, pos: branches[0].pos}
}

func (p *parser) bracket(ch byte, depth int) (*node, error) {
	open, closer := p.i, byte(')')
	if ch == '[' {
		closer = ']'
	}
	p.i++
	n, err := p.group(closer, open, depth+1)
	if err != nil {
		return nil, err
	}
	if n.kind == kPerm && len(n.items) > 6 {
		return nil, p.fail(open, "%d things in any order are too many: 6 at most", len(n.items))
	}
	if ch == '[' {
		n = &node{kind: kAlt, items: []*node{n, {kind: kSeq, pos: open}}, pos: open}
	}
	return n, nil
}

// reference reads {list}, {list:slot} or <rule>.
func (p *parser) reference(ch byte) (*node, error) {
	open, closer := p.i, byte('}')
	n := &node{kind: kList, pos: open}
	if ch == '<' {
		closer, n.kind = '>', kRule
	}
	end := strings.IndexByte(p.src[open:], closer)
	if end < 0 {
		return nil, p.fail(open, "this %q is never closed with %q", ch, closer)
	}
	body := p.src[open+1 : open+end]
	p.i = open + end + 1
	if i := strings.IndexAny(body, "{}<>[]()|;"); i >= 0 {
		return nil, p.fail(open+1+i, "%q in the name %q: a name is letters, digits, _ and -", body[i], body)
	}
	name, slot, renamed := strings.Cut(body, ":")
	n.text, n.slot = strings.TrimSpace(name), strings.TrimSpace(slot)
	if n.kind == kRule {
		n.text, renamed = strings.TrimSpace(body), false
	}
	if n.text == "" || renamed && n.slot == "" {
		return nil, p.fail(open, "the name in %q is missing", p.src[open:p.i])
	}
	if !renamed {
		n.slot = n.text
	}
	n.glued = n.kind == kList && (p.letterBefore(open) || p.letterBehind(p.i))
	return n, nil
}

func (p *parser) letterBefore(i int) bool {
	r, _ := utf8.DecodeLastRuneInString(p.src[:i])
	return r != utf8.RuneError && (fold.Letter(r) || r == '\'' || r == '’') && !fold.Own(r)
}

// letterBehind looks into a group that directly follows, too: {name}[s].
func (p *parser) letterBehind(i int) bool {
	for i < len(p.src) && (p.src[i] == '[' || p.src[i] == '(') {
		i++
	}
	r, _ := utf8.DecodeRuneInString(p.src[i:])
	return r != utf8.RuneError && (fold.Letter(r) || r == '\'' || r == '’') && !fold.Own(r)
}

// chunk reads text up to the next delimiter; \ takes the next sign as it is.
func (p *parser) chunk() *node {
	n := &node{kind: kText, pos: p.i}
	var b strings.Builder
	for p.i < len(p.src) && !strings.ContainsRune("()[]{}<>|;", rune(p.src[p.i])) {
		if p.src[p.i] == '\\' && p.i+1 < len(p.src) {
			p.i++
		}
		_, w := utf8.DecodeRuneInString(p.src[p.i:])
		b.WriteString(p.src[p.i : p.i+w])
		p.i += w
	}
	n.text = b.String()
	return n
}

// plainText reports whether a template is just words.
func plainText(s string) bool { return !strings.ContainsAny(s, "()[]{}<>|;\\") }
