package logs

import (
	"encoding/json"
)

// Conversation is a conversation whose requests have only the messages that they add, and come in
// order.
type Conversation struct {
	// Members are further JSON members of every body, beside model and messages; Offered are
	// those that only the first body needs. Each member ends with a comma.
	Members, Offered string
	// State belongs to the reader of the requests.
	State any
}

// Body returns a body with messages for a model. frame is the number of bytes around the messages
// in the whole request's body. first says that this is the beginning of the conversation.
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
