// Package ollama reads the API of Ollama: chats, and prompts without a history.
package ollama

import (
	"fmt"

	"github.com/unloop/unloop/gateway/internal/text/splice"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/plain"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/schemas/client"
)

// Other is the provider of Ollama's other paths, which have no prompt.
type Other struct{ plain.Plain }

// Name returns "ollama-http".
func (Other) Name() string { return "ollama-http" }

// Refusal has the shape of Ollama's errors, which are one text.
func (Other) Refusal(r provider.Refusal) []byte {
	return provider.JSON(struct {
		Error  string         `json:"error"`
		Code   string         `json:"code"`
		Detail *client.Detail `json:"detail,omitempty"`
	}{r.Message, r.Code, r.Detail})
}

// Prompts implements provider.Provider.
type Prompts struct{ Other }

// Name returns "ollama".
func (Prompts) Name() string { return "ollama" }

// Parse reads a request for a chat's next message, or for an answer to a prompt. Answers
// are streams unless the request says otherwise.
func (Prompts) Parse(body []byte, opts provider.Options) (*provider.Prompt, error) {
	p := reader{Reader: openai.Reader{Reader: provider.NewReader(body, opts)}}
	p.Prompt.Stream, p.State = true, p.state
	return p.Parsed("Ollama", p.read())
}

// located is the located form of a body.
type located struct {
	tree.Tree
	// asked is the place of a prompt without a history.
	asked splice.Place
	// tools are the names of the tools that are called, by the ids of the calls.
	tools map[string]string
	// unnamed says that a call or a result has no id.
	unnamed bool
}

func locate(body []byte) (*located, error) {
	at := &located{tools: map[string]string{}}
	p := reader{Reader: openai.Reader{Reader: provider.NewLocator(body, &at.Tree)}, at: at}
	return at, p.read()
}

// Hint puts text into the messages. A prompt without a history has its instructions beside it.
func (Prompts) Hint(body []byte, text, position string) ([]byte, error) {
	t, err := locate(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", provider.ErrNoPlace, err)
	case !t.List.Found() && t.asked.Kind(body) == '"' && position == provider.Result:
		return splice.AppendText(body, t.asked, text), nil
	case !t.List.Found() && t.asked.Kind(body) == '"':
		return t.Instruct("system", text)
	}
	return openai.Hint(&t.Tree, text, position)
}

// Repair corrects a history whose calls and results have ids. Ollama itself takes any
// history, and earlier versions know no ids.
func (Prompts) Repair(body []byte) ([]byte, repair.Report, error) {
	t, err := locate(body)
	switch {
	case err != nil:
		return body, repair.Report{}, fmt.Errorf("repair Ollama body: %w", err)
	case t.unnamed:
		return body, repair.Report{}, nil
	}
	return t.Repair(&tree.Format{Content: "content", Lost: t.lost})
}

// lost returns the result of a call that has none.
func (l *located) lost(id string) []byte {
	return fmt.Appendf(nil, `{"role":"tool","tool_call_id":%s,"tool_name":%s,"content":%s}`, splice.Quote(id), splice.Quote(l.tools[id]), splice.Quote(repair.Lost))
}
