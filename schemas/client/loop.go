package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// codeLoop is the code, or type, of the error that Unloop answers a loop with,
// in every provider's error shape.
const codeLoop = "recursive_loop_detected"

// LoopDetectedError says that Unloop stopped a request because it is part of a
// loop. Sending the same request again would be stopped, too.
type LoopDetectedError struct {
	// Message explains the loop in a sentence; it contains the word
	// recursive_loop_detected.
	Message string
	// Action is "reject" or "break".
	Action string
	// Detector and Policy say what found the loop.
	Detector, Policy string
	// Fingerprint of what was repeated, 64 hex digits.
	Fingerprint string
	// HitCount is how often it was seen within Window, this time included.
	HitCount int
	// Window is how long a repetition counts.
	Window time.Duration
	// Cooldown is how long a block of this kind stands, 0 if only the window
	// matters.
	Cooldown time.Duration
	// LoopID names the incident in events and for `unloop loops`.
	LoopID string
	// RetryAfter is how long to wait before the request is let through again,
	// in whole seconds; 0 where waiting does not help.
	RetryAfter time.Duration
	// Header and Body are the answer as it came, its body in the error shape of
	// the provider; both nil if the error comes from Check.
	Header http.Header
	Body   []byte
}

// Error is the message.
func (e *LoopDetectedError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s: seen %d times (detector %s)", codeLoop, e.HitCount, e.Detector)
	}
	return e.Message
}

// maxErrorBody bounds what is read of an answer's body to tell what it is, in
// bytes; Unloop's own are a few hundred.
const maxErrorBody = 1 << 20

// FromResponse returns the error that an answer stands for, or nil if Unloop
// did not stop its request. An answer that is none of Unloop's stops, a rate
// limit of the model's provider for example, is left as it was, and the body of
// one that is can still be read.
func FromResponse(res *http.Response) *LoopDetectedError {
	if res == nil || res.StatusCode != http.StatusTooManyRequests || res.Body == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	res.Body = rewound{io.MultiReader(bytes.NewReader(body), rest{res.Body, err}), res.Body}
	return parse(res.Header, body)
}

// rewound is a body whose beginning was read before.
type rewound struct {
	io.Reader
	io.Closer
}

// rest is what follows of a body, or the error that its beginning ended with.
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

// detail is the part of the body that is the same in every error shape.
type detail struct {
	Error           string `json:"error"`
	Message         string `json:"message"`
	Detector        string `json:"detector"`
	Policy          string `json:"policy"`
	Fingerprint     string `json:"fingerprint"`
	HitCount        int    `json:"hit_count"`
	WindowSeconds   int    `json:"window_seconds"`
	CooldownSeconds int    `json:"cooldown_seconds"`
	LoopID          string `json:"loop_id"`
}

// parse reads a 429. The headers alone are enough where something on the way
// replaced the body.
func parse(h http.Header, body []byte) *LoopDetectedError {
	var shape struct {
		Detail detail `json:"detail"`
	}
	if json.Unmarshal(body, &shape) != nil || shape.Detail.Error != codeLoop {
		// An upstream's own rate limit may come with the headers of a warning.
		if !stops(h.Get("X-Loop-Action")) || h.Get("X-Loop-Reason") != "loop_detected" {
			return nil
		}
		shape.Detail = detail{Detector: h.Get("X-Loop-Detector"), HitCount: number(h.Get("X-Loop-Count"))}
	}
	d := shape.Detail
	e := &LoopDetectedError{
		Message: d.Message, Action: h.Get("X-Loop-Action"), Detector: d.Detector, Policy: d.Policy,
		Fingerprint: d.Fingerprint, HitCount: d.HitCount, Window: seconds(d.WindowSeconds),
		Cooldown: seconds(d.CooldownSeconds), LoopID: d.LoopID,
		RetryAfter: seconds(number(h.Get("Retry-After"))), Header: h, Body: body,
	}
	if e.Action == "" {
		e.Action = ActionReject
	}
	return e
}

// stops says whether an action keeps a request from its model.
func stops(action string) bool { return action == ActionReject || action == ActionBreak }

func seconds(n int) time.Duration { return time.Duration(max(n, 0)) * time.Second }

// number is a header's whole number, 0 if it is none.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}
