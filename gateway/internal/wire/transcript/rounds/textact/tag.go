package textact

import (
	"bytes"
	"slices"
)

// words are the names of elements that are not actions: thoughts, answers and HTML.
var words = []string{
	"thinking", "think", "thought", "thoughts", "reasoning", "reason", "analysis", "reflection", "scratchpad", "plan", "planning",
	"observation", "result", "results", "response", "summary", "explanation", "details", "example", "memory", "note", "notes", "context",
	"p", "div", "span", "b", "i", "em", "strong", "code", "pre", "ul", "ol", "li", "a", "table", "tr", "td", "th", "h1", "h2", "h3", "h4",
	"html", "body", "head", "script", "style", "svg", "section", "button", "form", "label", "title", "br", "img", "input", "sub", "sup", "kbd",
}

// maxNested is the maximum number of elements around an action.
const maxNested = 3

// element is an XML element of a text. Its content ends with the text where the closing
// tag is missing.
type element struct {
	name          string
	open, content []byte
	end           int
}

// lastTag reads the last XML element of a text that is not inside another one and not
// one of words, and returns its end. An element without a closing tag ends with the text,
// because models stop at the closing tag.
func lastTag(text []byte) (a Action, end int) {
	last := lastElement(text)
	if last.name == "" {
		return Action{}, 0
	}
	return last.action(maxNested), last.end
}

// lastElement reads a text once: it skips each element that is closed, and knows which
// are before it looks for the closing tag.
func lastElement(text []byte) (last element) {
	closed := closingTags(text)
	for i := 0; i < len(text); {
		at := bytes.IndexByte(text[i:], '<')
		if at < 0 {
			break
		}
		i += at
		name, length := openTag(text[i:])
		from := i + length
		switch {
		case name == "":
			i++
		case closed[name] >= from:
			tag := "</" + name + ">"
			to := from + bytes.Index(text[from:], []byte(tag))
			if !slices.Contains(words, name) {
				last = element{name, text[i:from], text[from:to], to + len(tag)}
			}
			i = to + len(tag)
		case execution(name): // only some elements may have no closing tag
			return element{name, text[i:from], text[from:], len(text)}
		default:
			i = from
		}
	}
	return last
}

// closingTags returns where the last closing tag of each name begins.
func closingTags(text []byte) map[string]int {
	closed := map[string]int{}
	for i := 0; ; i++ {
		at := bytes.Index(text[i:], []byte("</"))
		if at < 0 {
			return closed
		}
		i += at
		if n := nameLen(text[i+2:]); n > 0 && i+2+n < len(text) && text[i+2+n] == '>' {
			closed[string(text[i+2:i+2+n])] = i
		}
	}
}

// execution reports whether agents execute the content of an element.
func execution(name string) bool {
	return name == "execute" || bytes.HasPrefix([]byte(name), []byte("execute_")) || name == "tool_call" || name == "function" || name == "invoke"
}

// action returns the action of an element, or that in its content, at most nested elements
// deep.
func (e *element) action(nested int) Action {
	if e.name == "function_calls" || e.name == "tool_call" || e.name == "tool_use" {
		if inner := e.inner(nested); inner.Form != None {
			return inner
		}
	}
	call := bytes.Trim(e.content, "\r\n")
	if attributes := bytes.IndexAny(e.open, " ="); attributes > 0 { // <function=name>, <invoke name="x">
		call = append(append(bytes.Clone(e.open), '\n'), call...)
	}
	if execution(e.name) {
		if fence, _ := lastFence(e.content); fence.Form == Fence {
			call = fence.Call
		}
	}
	return Action{Form: Tag, Tool: e.name, Mark: "<" + e.name, Call: call, Shell: isShell(e.name) || e.name == "execute_command" || e.name == "bash"}
}

// inner returns the action in the content of an element.
func (e *element) inner(nested int) Action {
	if nested == 0 {
		return Action{}
	}
	if last := lastElement(e.content); last.name != "" {
		return last.action(nested - 1)
	}
	inner := object(e.content)
	if inner.Form != None {
		inner.Mark = "<" + e.name
	}
	return inner
}

// openTag returns the name and the length of the opening tag at the beginning of a text;
// "" for none. Names are in lower case, as those of tools are.
func openTag(text []byte) (name string, length int) {
	n := 1 + nameLen(text[1:])
	if n == 1 || n == len(text) || text[1] < 'a' {
		return "", 0
	}
	switch text[n] {
	case '>':
		return string(text[1:n]), n + 1
	case ' ', '=':
		end := bytes.IndexAny(text[n:min(len(text), n+512)], "><\n")
		if end >= 0 && text[n+end] == '>' && text[n+end-1] != '/' {
			return string(text[1:n]), n + end + 1
		}
	}
	return "", 0
}

// nameLen returns the length of the name of an element at the beginning of a text; 0 for
// none.
func nameLen(text []byte) int {
	n := 0
	for n < len(text) && ('a' <= text[n] && text[n] <= 'z' || '0' <= text[n] && text[n] <= '9' || text[n] == '_') {
		n++
	}
	if n >= maxName {
		return 0
	}
	return n
}
