package repair

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/text/splice"
)

// WriteContent returns blocks as the content of a message: a single string as it is,
// or a list in which strings are text blocks. synthetic writes a result that was made
// for a call without one.
func WriteContent(blocks []Block, synthetic func(id string) []byte) []byte {
	if len(blocks) == 1 && blocks[0].Bare {
		return blocks[0].Raw
	}
	list := make([][]byte, len(blocks))
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Raw == nil:
			list[i] = synthetic(b.ID)
		case b.Bare:
			list[i] = slices.Concat([]byte(`{"type":"text","text":`), b.Raw, []byte{'}'})
		default:
			list[i] = b.Raw
		}
	}
	return splice.Array(list...)
}

// Blank reports whether a JSON string is only white space.
func Blank(raw []byte) bool {
	return len(bytes.TrimSpace(jsonwalk.AppendString(nil, raw))) == 0
}

// pendingWords are what tools write in place of a result that is still to come.
var pendingWords = [...]string{"pending", "in_progress", "in progress", "running", "queued", "waiting", "waiting_approval", "waiting for approval", "pending approval"}

// maxPending bounds, in bytes, the texts that Pending examines: such a note is short.
const maxPending = 300

// Pending reports whether the content of a result, as JSON, says that the real result
// is still to come. It only decides between two results of one call.
func Pending(content []byte) bool {
	text := bytes.TrimSpace(firstText(content))
	if len(text) > maxPending {
		return false
	}
	if len(text) > 0 && text[0] == '{' {
		text = status(text)
	}
	text = bytes.ToLower(bytes.Trim(text, "[](). …\n"))
	return slices.Contains(pendingWords[:], string(text))
}

// status returns the member "status" of a JSON object.
func status(text []byte) (status []byte) {
	err := jsonwalk.Text(text, func(w *jsonwalk.Walker) error {
		return w.Object(func(name []byte) (err error) {
			if string(name) == "status" {
				status, err = w.Bytes()
			}
			return err
		})
	})
	if err != nil {
		return nil
	}
	return status
}

// firstText returns the text of a result's content: a string, or the first text in a
// list.
func firstText(content []byte) (text []byte) {
	if len(content) == 0 || content[0] != '[' {
		return jsonwalk.AppendString(nil, content)
	}
	err := jsonwalk.Text(content, func(w *jsonwalk.Walker) error {
		return w.Array(func() error {
			return w.Members(func(name []byte) (err error) {
				if string(name) == "text" && text == nil {
					text, err = w.Bytes()
				}
				return err
			})
		})
	})
	if err != nil {
		return nil
	}
	return text
}
