// Package usage measures requests and answers in tokens: the usage that an answer reports,
// the bounds that a request sets, and an estimate of a prompt.
//
// It knows how the wire formats report tokens, not what a limit does with them.
package usage

import (
	"encoding/json"
	"strconv"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
)

// Usage is the tokens that an answer cost.
type Usage struct {
	// Input tokens, those read from a cache included.
	Input int
	// Cached is the part of Input that was read from a cache.
	Cached int
	// Output tokens, reasoning included.
	Output int
}

// reported is the usage object of all formats at once. Gemini has names of its own;
// Anthropic counts cached tokens beside the input, the others within it.
type reported struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	PromptDetails    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`

	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	InputDetails struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	CacheRead     int `json:"cache_read_input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`

	PromptTokenCount  int `json:"promptTokenCount"`
	CandidatesCount   int `json:"candidatesTokenCount"`
	ThoughtsCount     int `json:"thoughtsTokenCount"`
	ToolPromptCount   int `json:"toolUsePromptTokenCount"`
	CachedContentSize int `json:"cachedContentTokenCount"`
}

// parse reads a usage object.
func parse(object []byte) (Usage, bool) {
	var r reported
	if json.Unmarshal(object, &r) != nil {
		return Usage{}, false
	}
	u := Usage{
		Input:  r.PromptTokens + r.InputTokens + r.CacheRead + r.CacheCreation + r.PromptTokenCount + r.ToolPromptCount,
		Cached: r.PromptDetails.Cached + r.InputDetails.Cached + r.CacheRead + r.CachedContentSize,
		Output: r.CompletionTokens + r.OutputTokens + r.CandidatesCount + r.ThoughtsCount,
	}
	return u, u.Input >= 0 && u.Output >= 0 && u.Cached >= 0 && u != Usage{}
}

// merge returns the usage after a later report of the same answer: streams report parts,
// or sums that grow.
func (u Usage) merge(later Usage) Usage {
	return Usage{max(u.Input, later.Input), max(u.Cached, later.Cached), max(u.Output, later.Output)}
}

// Bounds is the most that a request lets its answer cost.
type Bounds struct {
	// Output is the longest that one answer may be, in tokens; 0 if the request
	// does not say.
	Output int
	// Answers is how many answers are asked for; at least 1.
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

// MaxOutput returns how many tokens the answers may have in all. standard is for a
// request that does not limit their length; most, unless it is 0, limits that of any.
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
		return w.Object(func(name []byte) error {
			switch string(name) {
			case "max_tokens", "max_completion_tokens", "max_output_tokens":
				return number(w, &b.Output)
			case "n", "best_of":
				return number(w, &b.Answers)
			case "generationConfig", "generation_config":
				return generationConfig(w, &b)
			case "messages", "input", "prompt", "instructions", "system", "contents", "systemInstruction", "system_instruction", "tools", "functions":
				raw, err := w.Raw()
				b.Prompt += PromptTokens(raw)
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

func generationConfig(w *jsonwalk.Walker, b *Bounds) error {
	return w.Members(func(name []byte) error {
		switch string(name) {
		case "maxOutputTokens", "max_output_tokens":
			return number(w, &b.Output)
		case "candidateCount", "candidate_count":
			return number(w, &b.Answers)
		}
		return nil
	})
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
