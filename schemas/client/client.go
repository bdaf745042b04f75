// Package client is the Go SDK: a Transport that turns Unloop's answer to a loop into a
// typed error, and a Client that asks for a decision alone. It also defines the bodies
// of POST /unloop/v1/check, which gateways answer.
//
// It uses Unloop through HTTP alone, and knows neither NATS nor policies nor how loops
// are found.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
)

// The reasons, other than a loop, for which a request must not be sent.
var (
	// ErrUnchecked means that a request could not be checked for loops, and that a
	// policy forbids to send such requests.
	ErrUnchecked = errors.New("not to be sent unchecked")
	// ErrKilled means that an operator stops requests like this one.
	ErrKilled = errors.New("stopped by an operator")
	// ErrLimited means that the limit of a rule is reached.
	ErrLimited = errors.New("rate limit exceeded")
)

var causes = map[string]error{ReasonUnchecked: ErrUnchecked, ReasonKilled: ErrKilled, ReasonLimited: ErrLimited}

// Error is an answer of the check API other than a decision.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"-"`
	// Code is a short constant, "invalid_request" for example; empty if the answer did
	// not come from Unloop.
	Code string `json:"code"`
	// Field is the faulty field of the request; empty if there is none.
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error returns the status and the message.
func (e *Error) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("check API: HTTP status %d", e.Status)
	}
	return fmt.Sprintf("check API: HTTP status %d: %s", e.Status, e.Message)
}

// Client asks a gateway. It may be used by many goroutines at once.
type Client struct {
	url    string
	http   *http.Client
	header http.Header
	// until is the time before which runs ask nothing, in Unix nanoseconds.
	until atomic.Int64
}

// Option changes what New makes.
type Option func(*Client)

// WithHTTPClient sends checks with another HTTP client.
func WithHTTPClient(c *http.Client) Option { return func(to *Client) { to.http = c } }

// WithHeader adds a header to every check.
func WithHeader(name, value string) Option {
	return func(to *Client) { to.header.Set(name, value) }
}

// WithAPIKey adds an API key to every check as OpenAI's clients do. The gateway tells
// callers apart by it and does not pass it on.
func WithAPIKey(key string) Option { return WithHeader("Authorization", "Bearer "+key) }

// New returns a client of the gateway at a URL such as http://127.0.0.1:8080, with or
// without the /v1 of OpenAI's clients.
func New(baseURL string, opts ...Option) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, fmt.Errorf("read the gateway's URL: %w", err)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the gateway's URL %q must look like http://host:port", u.Redacted())
	}
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	c := &Client{url: base + "/unloop/v1/check", http: &http.Client{}, header: http.Header{}}
	for _, opt := range opts {
		opt(c)
	}
	return c, nil
}

// Check asks what to do with a request. If the request must not be sent, it returns the
// decision and the error of Decision.Err. A malformed Request gets an *Error. If the
// gateway can't be reached, the caller decides whether to send the request.
//
// To send an allowed request through a gateway, Tag it; it then counts once.
func (c *Client) Check(ctx context.Context, r Request) (*Decision, error) {
	var d Decision
	if err := c.ask(ctx, r, r.Header, &d); err != nil {
		return nil, err
	}
	return &d, d.Err()
}

// ask posts a check and reads the decision.
func (c *Client) ask(ctx context.Context, check any, header http.Header, decision decided) error {
	body, err := json.Marshal(check)
	if err != nil {
		return fmt.Errorf("encode check: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make check: %w", err)
	}
	for _, header := range []http.Header{c.header, header} {
		for name, values := range header {
			req.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask for a check: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	return decode(res, decision)
}

// maxDecision bounds the size of an answer, in bytes. A finding has a few hundred bytes,
// and there is one for each policy and detector.
const maxDecision = 8 << 20

// decided is a decision of any kind.
type decided interface {
	// action is empty if the answer is no decision.
	action() string
}

func (d *Decision) action() string { return d.Action }

func decode(res *http.Response, decision decided) error {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDecision))
	if err != nil {
		return fmt.Errorf("read the decision: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		var answer struct {
			Error Error `json:"error"`
		}
		_ = json.Unmarshal(body, &answer) // a body of another server has no such error
		answer.Error.Status = res.StatusCode
		return &answer.Error
	}
	if err := json.Unmarshal(body, decision); err != nil {
		return fmt.Errorf("read the decision: %w", err)
	}
	if decision.action() == "" {
		return fmt.Errorf("read the decision: the answer has no action; is %s an Unloop gateway?", res.Request.URL.Host)
	}
	return nil
}
