// Package chat reads OpenAI Chat Completions, which most other providers and
// self-hosted servers speak too.
package chat

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
)

// Chat implements provider.Provider.
type Chat struct{ openai.API }

// Name returns "openai-chat".
func (Chat) Name() string { return "openai-chat" }

// Parse reads a Chat Completions request.
func (Chat) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: openai.Reader{Reader: provider.NewReader(body, opts)}}
	err := p.ReadMembers(p.member)
	p.Prompt.User, p.Prompt.Session = p.who.User(), p.who.Session
	p.Prompt.Model = cmp.Or(p.Prompt.Model, deployment(opts.Path))
	return p.Parsed("Chat Completions", err)
}

// deployment returns the model that an Azure path names.
func deployment(path string) string {
	_, rest, _ := strings.Cut(path, "/deployments/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// locate returns the located form of a body.
func locate(body []byte) (*tree.Tree, error) {
	p := reader{Reader: openai.Reader{Reader: provider.NewLocator(body, &tree.Tree{})}}
	return p.Tree, p.ReadMembers(p.member)
}

// Hint puts text into the messages.
func (Chat) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	}
	return openai.Hint(t, text, position)
}

// Repair corrects the history. Messages need not begin with a certain role, roles need
// not take turns, and texts may be empty.
func (Chat) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	if err != nil {
		return body, repair.Report{}, fmt.Errorf("repair Chat Completions body: %w", err)
	}
	return t.Repair(&tree.Format{Content: "content", Lost: func(id string) []byte { return toolMessage(id, splice.Quote(repair.Lost)) }})
}

// toolMessage returns a message with a result. Without content it is empty.
func toolMessage(id string, content []byte) []byte {
	if len(content) == 0 {
		content = []byte(`""`)
	}
	return fmt.Appendf(nil, `{"role":"tool","tool_call_id":%s,"content":%s}`, splice.Quote(id), content)
}
