package logs

import (
	"encoding/json"
)

// Conversation is one whose requests have only the messages that each adds. They come in
// their order.
type Conversation struct {
	// Members are those of each body, beside model and messages, and Offered those that the
	// first body of the conversation may have alone; both are written with a comma behind each.
	Members, Offered string
	// State is what a reader of the requests keeps of the conversation.
	State any
}

// Body returns a body with messages for a model, and how many bytes of a body with all
// messages are around these. first says that the conversation begins with it.
func (c *Conversation) Body(model string, messages [][]byte, first bool) (body []byte, frame int) {
	name := ""
	if model != "" {
		text, _ := json.Marshal(model) // strings can be encoded
		name = `"model":` + string(text) + `,`
	}
	begin, end := `{`+c.Members+name, `"messages":[`
	frame = len(begin) + len(c.Offered) + len(end) + len(`]}`)
	size := frame
	for _, m := range messages {
		size += len(m) + 1
	}
	body = append(make([]byte, 0, size), begin...)
	if first {
		body = append(body, c.Offered...)
	}
	body = append(body, end...)
	for i, m := range messages {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, m...)
	}
	return append(body, `]}`...), frame
}
