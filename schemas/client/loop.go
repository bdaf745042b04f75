package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// codeLoop is the code, or type, of Unloop's error for a loop in every provider's error
// shape.
const codeLoop = "recursive_loop_detected"

// LoopDetectedError means that Unloop stopped a request because it is part of a loop.
// The same request would be stopped again.
type LoopDetectedError struct {
	// Message explains the loop in a sentence; it contains the word
	// recursive_loop_detected.
	Message string
	// Action is "reject" or "break".
	Action string
	// Detector and Policy are those that found the loop.
	Detector, Policy string
	// Fingerprint identifies the repeated content, in 64 hex digits.
	Fingerprint string
	// HitCount is how often it was seen within Window, this time included.
	HitCount int
	// Window is how long a repetition counts.
	Window time.Duration
	// Cooldown is how long such a block lasts; 0 if only the window matters.
	Cooldown time.Duration
	// LoopID names the incident in events and for `unloop loops`.
	LoopID string
	// RetryAfter is how long to wait until the request passes again, in whole seconds; 0
	// where waiting does not help.
	RetryAfter time.Duration
	// Header and Body are those of the answer, the body in the provider's error shape;
	// nil if the error comes from Check.
	Header http.Header
	Body   []byte
}

// Error returns the message.
func (e *LoopDetectedError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: seen %d times (detector %s)", codeLoop, e.HitCount, e.Detector)
	}
	return e.Message
}

// maxErrorBody bounds how much of an answer's body is read to recognise it, in bytes;
// Unloop's own bodies have a few hundred.
const maxErrorBody = 1 << 20

// FromResponse returns the error of an answer with which Unloop stopped a request; nil
// for any other answer, such as a rate limit of the model's provider. The status is 429, or
// another one that a policy or a client's behavior asks for. The answer's body can be read
// afterwards either way.
func FromResponse(res *http.Response) *LoopDetectedError {
	if res == nil || res.StatusCode < http.StatusBadRequest || res.Body == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	res.Body = rewound{io.MultiReader(bytes.NewReader(body), rest{res.Body, err}), res.Body}
	return parse(res.Header, body)
}

// rewound is a body whose beginning is read a second time.
type rewound struct {
	io.Reader
	io.Closer
}

// rest is the unread rest of a body, or the error that ended the reading of its
// beginning.
type rest struct {
	io.Reader
	err error
}

func (r rest) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.Reader.Read(p)
}

// Detail is the part of the answer to a loop that all formats have in common.
type Detail struct {
	Error           string `json:"error"`
	Message         string `json:"message,omitempty"`
	Detector        string `json:"detector"`
	Policy          string `json:"policy"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
}

// parse reads an answer with an error's status. The headers are enough if a proxy replaced the
// body.
func parse(h http.Header, body []byte) *LoopDetectedError {
	var shape struct {
		Detail Detail `json:"detail"`
	}
	if json.Unmarshal(body, &shape) != nil || shape.Detail.Error != codeLoop {
		// An upstream's own rate limit may come with the headers of a warning.
		if !stops(h.Get("X-Loop-Action")) || h.Get("X-Loop-Reason") != "loop_detected" {
			return nil
		}
		shape.Detail = Detail{Detector: h.Get("X-Loop-Detector"), HitCount: number(h.Get("X-Loop-Count"))}
	}
	d := shape.Detail
	return &LoopDetectedError{
		Message: d.Message, Action: cmp.Or(h.Get("X-Loop-Action"), ActionReject), Detector: d.Detector, Policy: d.Policy,
		Fingerprint: d.Fingerprint, HitCount: max(d.HitCount, 0), Window: seconds(d.WindowSeconds),
		Cooldown: seconds(d.CooldownSeconds), LoopID: d.LoopID,
		RetryAfter: seconds(number(h.Get("Retry-After"))), Header: h, Body: body,
	}
}

// stops reports whether an action keeps a request from its model.
func stops(action string) bool { return action == ActionReject || action == ActionBreak }

func seconds(n int) time.Duration { return time.Duration(max(n, 0)) * time.Second }

// number returns a header's whole number, 0 if it is none.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
