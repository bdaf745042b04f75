package textact

import (
	"bytes"
	"slices"
)

// words are the names of elements that are no actions: thoughts, answers and HTML.
var words = []string{
	"thinking", "think", "thought", "thoughts", "reasoning", "reason", "analysis", "reflection", "scratchpad", "plan", "planning",
	"observation", "result", "results", "response", "summary", "explanation", "details", "example", "memory", "note", "notes", "context",
	"p", "div", "span", "b", "i", "em", "strong", "code", "pre", "ul", "ol", "li", "a", "table", "tr", "td", "th", "h1", "h2", "h3", "h4",
	"html", "body", "head", "script", "style", "svg", "section", "button", "form", "label", "title", "br", "img", "input", "sub", "sup", "kbd",
}

// maxOpen is the maximum number of elements without a closing tag that are searched.
const maxOpen = 64

// lastTag reads the last XML element of a text that is not inside another one and not
// one of words, and returns its end. An element without a closing tag ends with the text,
// because models stop at the closing tag.
func lastTag(text []byte) (a Action, end int) {
	var open []string // names of elements that are not closed
	for i := 0; i < len(text); {
		at := bytes.IndexByte(text[i:], '<')
		if at < 0 {
			break
		}
		i += at
		name, inner := openTag(text[i:])
		if name == "" || slices.Contains(open, name) {
			i++
			continue
		}
		from := i + inner
		to, next := closeTag(text, from, name)
		if to < 0 { // only some elements may have no closing tag
			if execution(name) {
				return tagAction(name, text[i:from], text[from:]), len(text)
			}
			if open = append(open, name); len(open) > maxOpen {
				break
			}
			i = from
			continue
		}
		if !slices.Contains(words, name) {
			a, end = tagAction(name, text[i:from], text[from:to]), next
		}
		i = next
	}
	return a, end
}

// execution reports whether agents execute the content of an element.
func execution(name string) bool {
	return name == "execute" || bytes.HasPrefix([]byte(name), []byte("execute_")) || name == "tool_call" || name == "function" || name == "invoke"
}

// tagAction returns the action of an element, or that in its content.
func tagAction(name string, open, content []byte) Action {
	call := bytes.Trim(content, "\r\n")
	if attributes := bytes.IndexAny(open, " ="); attributes > 0 { // <function=name>, <invoke name="x">
		call = append(append(bytes.Clone(open), '\n'), call...)
	}
	tool := name
	if name == "function_calls" || name == "tool_call" || name == "tool_use" {
		if inner, _ := lastTag(content); inner.Form != None {
			return inner
		}
		if inner := object(bytes.TrimSpace(content)); inner.Form != None {
			inner.Mark = "<" + name
			return inner
		}
	}
	if fence, _ := lastFence(content); fence.Form == Fence && execution(name) {
		call = fence.Call
	}
	return Action{Form: Tag, Tool: tool, Mark: "<" + name, Call: call, Shell: isShell(tool) || tool == "execute_command" || tool == "bash"}
}

// openTag returns the name and the length of the opening tag at the beginning of a text;
// "" for none. Names are in lower case, as those of tools are.
func openTag(text []byte) (name string, length int) {
	n := 1
	for n < len(text) && ('a' <= text[n] && text[n] <= 'z' || '0' <= text[n] && text[n] <= '9' || text[n] == '_') {
		n++
	}
	if n == 1 || n > maxName || n == len(text) || text[1] < 'a' {
		return "", 0
	}
	switch text[n] {
	case '>':
		return string(text[1:n]), n + 1
	case ' ', '=':
		end := bytes.IndexAny(text[n:min(len(text), n+512)], ">\n")
		if end >= 0 && text[n+end] == '>' && text[n+end-1] != '/' {
			return string(text[1:n]), n + end + 1
		}
	}
	return "", 0
}

// closeTag returns where the closing tag of an element begins and ends; -1 for none.
func closeTag(text []byte, from int, name string) (begin, end int) {
	tag := []byte("</" + name + ">")
	if i := bytes.Index(text[from:], tag); i >= 0 {
		return from + i, from + i + len(tag)
	}
	return -1, -1
}
