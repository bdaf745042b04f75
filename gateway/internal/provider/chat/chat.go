// Package chat reads OpenAI Chat Completions, which most other providers and
// self-hosted servers speak too.
package chat

import (
	"fmt"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/provider"
	"github.com/unloop/unloop/gateway/internal/provider/plain"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// Chat implements provider.Provider. Keys and refusals are those of plain
// OpenAI-style HTTP.
type Chat struct{ plain.Plain }

// Name is "openai-chat".
func (Chat) Name() string { return "openai-chat" }

// Parse reads a Chat Completions request.
func (Chat) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := parser{prompt: &provider.Prompt{}, tail: opts.Tail}
	err := jsonwalk.Text(body, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) error { return p.field(w, name) })
	})
	if err != nil {
		return nil, fmt.Errorf("read Chat Completions body: %w", err)
	}
	if p.messages == 0 {
		return nil, nil
	}
	return p.finish()
}

// parser remembers of a body what a prompt needs: the newest messages as
// slices of the body, and what opened the conversation.
type parser struct {
	prompt   *provider.Prompt
	tail     int
	messages int
	newest   [][]byte
	opening  fingerprint.Digest
	opened   bool
	read     messageReader
}

func (p *parser) field(w *jsonwalk.Walker, name []byte) (err error) {
	switch string(name) {
	case "model":
		p.prompt.Model, err = w.String()
	case "stream":
		p.prompt.Stream, err = w.Bool()
	case "safety_identifier":
		err = p.user(w)
	case "user":
		err = p.user(w)
	case "metadata":
		err = p.metadata(w)
	case "messages":
		err = p.history(w)
	default:
		err = w.Skip()
	}
	return err
}

func (p *parser) user(w *jsonwalk.Walker) error {
	user, err := w.String()
	if user != "" {
		p.prompt.User = user
	}
	return err
}

func (p *parser) metadata(w *jsonwalk.Walker) error {
	if w.Kind() != '{' {
		return w.Skip()
	}
	return w.Object(func(name []byte) (err error) {
		switch string(name) {
		case "user_id":
			return p.user(w)
		case "session_id":
			p.prompt.Session, err = w.String()
			return err
		default:
			return w.Skip()
		}
	})
}

func (p *parser) history(w *jsonwalk.Walker) error {
	if w.Kind() != '[' {
		return w.Skip()
	}
	return w.Array(func() error {
		raw, err := w.Raw()
		if err != nil {
			return err
		}
		p.messages++
		if !p.opened {
			if err := p.open(raw); err != nil {
				return err
			}
		}
		if p.tail > 0 && len(p.newest) == p.tail {
			p.newest = append(p.newest[:0], p.newest[1:]...)
		}
		if p.tail > 0 {
			p.newest = append(p.newest, raw)
		}
		return nil
	})
}

// open takes the first system and the first human message into the opening.
func (p *parser) open(raw []byte) error {
	m, err := p.read.message(raw)
	if err != nil {
		return err
	}
	if m.instruction() || m.role == "user" {
		p.opening = fingerprint.Chain(p.opening, m.digests().Strict)
	}
	p.opened = m.role == "user"
	return nil
}

func (p *parser) finish() (*provider.Prompt, error) {
	for _, raw := range p.newest {
		m, err := p.read.message(raw)
		if err != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		p.prompt.Tail = append(p.prompt.Tail, m.digests())
	}
	p.prompt.Opening = p.opening
	return p.prompt, nil
}
