package gemini

import (
	"slices"
	"unicode"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

// reader reads a body into a prompt and its transcript and, for hints and repairs, into
// its located form.
type reader struct {
	provider.Reader
	at *located // nil to read a prompt
}

// located is the located form of a body.
type located struct {
	tree.Tree
	// systemParts is the place of the parts of the system instruction.
	systemParts splice.Place
	// cached says that the instructions are cached.
	cached bool
	// continued says that a function answers in several pieces.
	continued bool
	// functions are the functions of calls and responses, by the ID of their block.
	functions map[string]function
}

// spelling is the name of a member in both spellings.
type spelling struct{ camel, snake string }

// spellings are the members that matter.
var spellings = spell(
	"parts", "text", "role", "functionCall", "functionResponse", "name", "args", "id", "response", "thought", "thoughtSignature", "willContinue",
	"contents", "systemInstruction", "tools", "functionDeclarations", "computerUse", "mcpServers", "cachedContent",
	"generationConfig", "responseMimeType", "responseSchema", "responseJsonSchema",
)

func spell(names ...string) (all []spelling) {
	for _, camel := range names {
		snake := ""
		for _, c := range camel {
			if unicode.IsUpper(c) {
				snake += "_"
			}
			snake += string(unicode.ToLower(c))
		}
		all = append(all, spelling{camel, snake})
	}
	return all
}

// object reads the members of an object that matter, in camelCase. A member in both
// spellings is an error, because it is not known which of them Google reads.
func object(w *jsonwalk.Walker, member func(name string) error) error {
	var seen uint32
	return w.Object(func(name []byte) error {
		for i := range spellings {
			s := &spellings[i]
			if string(name) != s.camel && string(name) != s.snake {
				continue
			}
			if seen&(1<<i) != 0 {
				return provider.ErrAmbiguous
			}
			seen |= 1 << i
			return member(s.camel)
		}
		return nil
	})
}

// members is object for a value that may have another type: it then skips the value.
func members(w *jsonwalk.Walker, member func(name string) error) error {
	if w.Kind() != '{' {
		return w.Skip()
	}
	return object(w, member)
}

// each calls f for each element of a list, or for the one value in its place.
func each(w *jsonwalk.Walker, f func() error) error {
	switch w.Kind() {
	case '[':
		return w.Array(f)
	case 'n':
		return w.Skip()
	default:
		return f()
	}
}

func (p *reader) read() error {
	return p.ReadBody(func(w *jsonwalk.Walker) error {
		return object(w, func(name string) error { return p.member(w, name) })
	})
}

func (p *reader) member(w *jsonwalk.Walker, name string) (err error) {
	switch name {
	case "systemInstruction":
		p.System, err = splice.Around(w, func() error { return p.system(w) })
		p.T.EndSystem()
	case "cachedContent":
		if p.at != nil {
			p.at.cached = w.Kind() == '"'
		}
		var raw []byte
		raw, err = w.Raw()
		p.T.Add(message.Part{Kind: message.Field, Name: []byte("cachedContent"), Value: raw})
		p.T.EndSystem()
	case "tools":
		err = each(w, func() error { return p.tools(w) })
	case "generationConfig":
		err = p.config(w)
	case "contents":
		if content := func() error { return p.content(w) }; w.Kind() == '[' {
			err = p.ReadList(w, content)
		} else {
			err = each(w, content)
		}
	}
	return err
}

// system reads the system instruction. Null is none.
func (p *reader) system(w *jsonwalk.Walker) error {
	if w.Kind() == 'n' {
		return w.Skip()
	}
	at := p.at
	p.at = nil // the instruction has no blocks of the history
	_, parts, err := p.message(w)
	if p.at = at; at != nil {
		at.systemParts = parts
	}
	return err
}

// config reads whether the answer must have a certain form.
func (p *reader) config(w *jsonwalk.Walker) error {
	return members(w, func(name string) (err error) {
		switch name {
		case "responseMimeType":
			var kind []byte
			kind, err = w.Bytes()
			p.Prompt.Structured = p.Prompt.Structured || len(kind) > 0 && string(kind) != "text/plain"
		case "responseSchema", "responseJsonSchema":
			p.Prompt.Structured = p.Prompt.Structured || w.Kind() == '{'
		}
		return err
	})
}

// tools reads the names of the functions of one group.
func (p *reader) tools(w *jsonwalk.Walker) error {
	return members(w, func(name string) error {
		switch name {
		case "computerUse", "mcpServers": // their functions are named nowhere
			p.T.OfferUnnamed()
		case "functionDeclarations":
			return each(w, func() error {
				return object(w, func(name string) error {
					if name != "name" {
						return nil
					}
					tool, err := w.Bytes()
					p.T.Offer(tool)
					return err
				})
			})
		}
		return nil
	})
}

// content reads an element of the contents.
func (p *reader) content(w *jsonwalk.Walker) error {
	from, kind := w.Offset(), w.Kind()
	role, parts, err := p.message(w)
	if err != nil {
		return err
	}
	speaker := message.User
	if string(role) == "model" {
		speaker = message.Assistant
	}
	p.T.End(speaker)
	if p.at != nil {
		p.at.end(tree.Message{Place: splice.Place{From: from, To: w.Offset()}, Content: parts, Speaker: speaker, Role: repairRole(kind, role)})
	}
	return nil
}

// repairRole returns the role that repair gives a content. It leaves strings alone.
func repairRole(kind byte, role []byte) repair.Role {
	switch string(role) {
	case "model":
		return repair.Assistant
	case "user", "function", "":
		if kind == '{' {
			return repair.User
		}
	}
	return repair.Other
}

// message reads the role and the parts of a content or instruction.
func (p *reader) message(w *jsonwalk.Walker) (role []byte, parts splice.Place, err error) {
	if w.Kind() == '"' {
		return nil, parts, p.text(w)
	}
	err = object(w, func(name string) (err error) {
		switch name {
		case "role":
			role, err = w.Bytes()
		case "parts":
			parts.From = w.Offset()
			err = each(w, func() error { return p.element(w) })
			parts.To = w.Offset()
		}
		return err
	})
	return role, parts, err
}

func (p *reader) text(w *jsonwalk.Walker) error {
	raw, err := w.Raw()
	p.T.Add(message.Part{Kind: message.Text, Value: raw})
	return err
}

// end ends a content of the tree. The user's responses come first, in whatever order
// they are written: Gemini accepts them anywhere in their content.
func (l *located) end(m tree.Message) {
	if m.Role == repair.User {
		slices.SortStableFunc(l.Open, func(a, b repair.Block) int { return rank(a) - rank(b) })
	}
	l.End(m)
}

func rank(b repair.Block) int {
	if b.Kind == repair.Result {
		return 0
	}
	return 1
}
