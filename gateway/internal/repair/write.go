package repair

import (
	"bytes"
	"slices"

	"github.com/unloop/unloop/gateway/internal/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/splice"
)

func sortByPlace(blocks []Block) {
	slices.SortStableFunc(blocks, func(a, b Block) int {
		if a.message != b.message {
			return a.message - b.message
		}
		return a.place - b.place
	})
}

// Join puts the results of the turn before and a turn of the user into one
// message, as formats want it in which results are blocks of the user's. Either
// may be nil. It returns the blocks, and the message that they all come from if
// they are all of it and in order, or -1.
func Join(messages []Message, results []Block, user *Turn) (blocks []Block, whole int) {
	blocks = slices.Clone(results)
	if user != nil {
		blocks = append(blocks, user.Blocks...)
	}
	if len(blocks) == 0 || blocks[0].message < 0 {
		return blocks, -1
	}
	whole = blocks[0].message
	if messages[whole].Role != User || len(blocks) != len(messages[whole].Blocks) {
		return blocks, -1
	}
	for i := range blocks {
		if blocks[i].message != whole || blocks[i].place != i {
			return blocks, -1
		}
	}
	return blocks, whole
}

// Joined is how many messages Join made one of, less one.
func Joined(results []Block, user *Turn) int {
	from := map[int]bool{}
	for i := range results {
		if !results[i].moved {
			from[results[i].message] = true
		}
	}
	if user != nil && !slices.ContainsFunc(user.Sources, func(i int) bool { return from[i] }) {
		from[user.Sources[0]] = true
	}
	return max(0, len(from)-1)
}

// WriteContent writes blocks as the content of a message: strings joined by a blank
// line, or a list in which strings have become text blocks. Blank ones are left
// out, which providers refuse.
func WriteContent(blocks []Block, synthetic func(id string) []byte) []byte {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b Block) bool { return b.Kind == Text && b.Blank })
	if slices.ContainsFunc(blocks, func(b Block) bool { return !b.Bare }) {
		return writeList(blocks, synthetic)
	}
	var text []byte
	for i := range blocks {
		if i > 0 {
			text = append(text, "\n\n"...)
		}
		text = jsonwalk.AppendString(text, blocks[i].Raw)
	}
	return splice.Quote(string(text))
}

func writeList(blocks []Block, synthetic func(id string) []byte) []byte {
	out := []byte{'['}
	for i := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		switch b := &blocks[i]; {
		case b.Raw == nil:
			out = append(out, synthetic(b.ID)...)
		case b.Bare:
			out = append(append(append(out, `{"type":"text","text":`...), b.Raw...), '}')
		default:
			out = append(out, b.Raw...)
		}
	}
	return append(out, ']')
}

// Blank says whether a JSON string is white space alone.
func Blank(raw []byte) bool {
	return len(bytes.TrimSpace(jsonwalk.AppendString(nil, raw))) == 0
}

// pendingWords are how tools say that a result is still to come.
var pendingWords = [...]string{"pending", "in_progress", "in progress", "running", "queued", "waiting", "waiting_approval", "waiting for approval", "pending approval"}

// maxPending bounds the texts that are looked at: such a note is short.
const maxPending = 300

// Pending says whether the text of a result says that the real one is still to
// come. It only decides between two results of one call.
func Pending(text []byte) bool {
	text = bytes.TrimSpace(text)
	if len(text) > maxPending {
		return false
	}
	if len(text) > 0 && text[0] == '{' {
		text = statusOf(text)
	}
	text = bytes.ToLower(bytes.Trim(text, "[](). …\n"))
	return slices.Contains(pendingWords[:], string(text))
}

// statusOf is the status member of a JSON object.
func statusOf(text []byte) (status []byte) {
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

// AnswerText is the text of a result's content: of a string, or of the first text
// in a list.
func AnswerText(content []byte) []byte {
	if len(content) == 0 || content[0] != '[' {
		return jsonwalk.AppendString(nil, content)
	}
	var text []byte
	err := jsonwalk.Text(content, func(w *jsonwalk.Walker) error {
		return w.Array(func() error {
			if w.Kind() != '{' {
				return nil
			}
			return w.Object(func(name []byte) (err error) {
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
