// Package client is the Go SDK: a Transport under which Unloop's answer to a
// loop is a typed error, and a Client that asks for the decision alone. It also
// defines the bodies of POST /unloop/v1/check, which gateways answer.
//
// It knows Unloop by HTTP alone: neither NATS nor policies nor how loops are
// found.
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
)

// ErrUnchecked says that a request could not be checked for loops, and that a
// policy forbids to send it then.
var ErrUnchecked = errors.New("not to be sent unchecked")

// ErrKilled says that an operator has stopped requests like this one.
var ErrKilled = errors.New("stopped by an operator")

// ErrLimited says that a rule's limit is reached.
var ErrLimited = errors.New("rate limit exceeded")

// Error is an answer of the check API that is no decision.
type Error struct {
	// Status is the HTTP status.
	Status int `json:"-"`
	// Code is short and does not change, "invalid_request" for example; empty
	// if the answer came from something else than Unloop.
	Code string `json:"code"`
	// Field is the request's field that is at fault; empty if none is.
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is the status and the message.
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
}

// Option changes what New makes.
type Option func(*Client)

// WithHTTPClient sends through another HTTP client.
func WithHTTPClient(c *http.Client) Option { return func(to *Client) { to.http = c } }

// WithHeader adds a header to every check.
func WithHeader(name, value string) Option {
	return func(to *Client) { to.header.Set(name, value) }
}

// WithAPIKey has checks bear an API key as OpenAI's clients do. It tells
// callers apart and goes nowhere else.
func WithAPIKey(key string) Option { return WithHeader("Authorization", "Bearer "+key) }

// New returns a client of the gateway at a URL such as http://127.0.0.1:8080,
// with or without the /v1 that OpenAI's clients want.
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

// Check asks what to do with a request. Its error is a *LoopDetectedError for a
// loop that is to be stopped, ErrUnchecked for a request that must not be sent
// unchecked and ErrKilled for one that an operator stops, all beside the
// decision; an *Error for a Request that makes
// no sense; or that of a gateway that can't be reached, which is for the caller
// to take as a yes or a no.
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

// maxDecision bounds what is read of an answer, in bytes: findings are a few
// hundred each, and there is one a policy and detector.
const maxDecision = 8 << 20

// decided is a decision of any kind.
type decided interface {
	// action is empty in what is none.
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
		_ = json.Unmarshal(body, &answer) // a body of something else has no more to tell
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
