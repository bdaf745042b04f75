// Package usage measures requests and answers in tokens: the usage that an answer reports,
// the bounds that a request sets, and an estimate of a prompt.
//
// It knows how the wire formats report tokens, not what a limit does with them.
package usage

import (
	"strconv"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/size"
)

// Usage is the number of tokens that an answer cost.
type Usage struct {
	// Input tokens, those read from a cache included.
	Input int
	// Cached is the part of Input that was read from a cache.
	Cached int
	// Output tokens, reasoning included.
	Output int
}

// parse reads an object with the counts of tokens of any format.
func parse(object []byte) (Usage, bool) {
	var u Usage
	err := jsonwalk.Text(object, func(w *jsonwalk.Walker) error {
		return counted(w, "", func(name string) error { return u.add(w, name) })
	})
	return u, err == nil && u.Input >= 0 && u.Output >= 0 && u.Cached >= 0 && u != Usage{}
}

// add adds the number of the member with this name to its total.
func (u *Usage) add(w *jsonwalk.Walker, name string) error {
	counts := names[name]
	if counts&(input|cached|output) == 0 {
		return nil
	}
	raw, err := w.Raw()
	if err != nil {
		return err
	}
	u.count(counts, raw)
	return nil
}

// count adds a number to what it counts. What is no number counts nothing.
func (u *Usage) count(counts count, number []byte) {
	n, _ := strconv.Atoi(string(number))
	if counts&input != 0 {
		u.Input += n
	}
	if counts&cached != 0 {
		u.Cached += n
	}
	if counts&output != 0 {
		u.Output += n
	}
}

// merge returns the usage after a later report of the same answer: streams report parts,
// or sums that grow.
func (u Usage) merge(later Usage) Usage {
	return Usage{max(u.Input, later.Input), max(u.Cached, later.Cached), max(u.Output, later.Output)}
}

// Bounds limit the cost of a request.
type Bounds struct {
	// Output is the maximum length of one answer, in tokens; 0 if the request sets none.
	Output int
	// Answers is the number of answers that the request asks for; at least 1.
	Answers int
	// Prompt is an estimate of the tokens of the prompt and the tools; 0 if the format is not known.
	Prompt int
}

// MaxTokens is more than any model takes or answers, and maxAnswers more than any
// provider gives to one request.
const (
	MaxTokens  = 1 << 40
	maxAnswers = 1 << 10
)

// MaxOutput returns the maximum number of tokens of all answers. standard is the limit of an
// answer if the request sets none; most, unless it is 0, is the limit for any request.
func (b Bounds) MaxOutput(standard, most int) int {
	if b.Output > 0 {
		standard = min(b.Output, MaxTokens)
	}
	if most > 0 {
		standard = min(standard, most)
	}
	return standard * min(b.Answers, maxAnswers)
}

// BoundsOf returns the bounds of a request in any of the formats. A body that is no JSON
// object has none.
func BoundsOf(body []byte) Bounds {
	var b Bounds
	err := jsonwalk.Text(body, func(w *jsonwalk.Walker) error {
		return counted(w, "", func(name string) error {
			switch counts := names[name]; {
			case counts&maxOutput != 0:
				return number(w, &b.Output)
			case counts&choices != 0:
				return number(w, &b.Answers)
			case counts&prompt != 0:
				raw, err := w.Raw()
				b.Prompt += size.Of(raw).Tokens()
				return err
			}
			return nil
		})
	})
	if err != nil {
		return Bounds{Answers: 1}
	}
	b.Answers = max(b.Answers, 1)
	return b
}

func number(w *jsonwalk.Walker, most *int) error {
	raw, err := w.Raw()
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(string(raw)); err == nil {
		*most = max(*most, n)
	}
	return nil
}
