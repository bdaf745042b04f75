package main

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"
)

const chatPath = "/v1/chat/completions"

// errAnswer says that an answer is not what was expected.
var errAnswer = errors.New("unexpected answer")

// client sends one request after another on a connection of its own. The client of net/http
// takes as much time as its server, this one far less.
type client struct {
	host   fasthttp.HostClient
	url    string
	header map[string]string
}

// dial returns a client of a path with or without a query.
func dial(in *instance, path string) *client {
	return &client{url: in.url + path, header: in.header, host: fasthttp.HostClient{
		Addr: strings.TrimPrefix(in.url, "http://"), MaxConns: 1, StreamResponseBody: true, ReadTimeout: 2 * patience, WriteTimeout: patience,
	}}
}

func (c *client) close() { c.host.CloseIdleConnections() }

// open sends a body under an API key, and returns the answer as soon as its head has arrived.
func (c *client) open(key string, body []byte) (*fasthttp.Response, error) {
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	req.SetRequestURI(c.url)
	req.Header.SetMethod(http.MethodPost)
	req.Header.SetContentType("application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	req.SetBodyRaw(body)
	if err := c.host.Do(req, res); err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.url, err)
	}
	return res, nil
}

// reply is what the client reads of an answer.
type reply struct {
	status int
	// unjudged says that the request was forwarded without a decision, and uncompared that
	// only its text was not compared.
	unjudged, uncompared bool
}

// post sends a body, and calls line with each line of the answer as it arrives; the line is
// valid until line returns.
func (c *client) post(key string, body []byte, line func([]byte)) (reply, error) {
	res, err := c.open(key, body)
	if err != nil {
		return reply{}, err
	}
	defer fasthttp.ReleaseResponse(res)
	degraded := string(res.Header.Peek("X-Loop-Degraded"))
	r := reply{status: res.StatusCode(), uncompared: degraded == "semantic", unjudged: degraded != "" && degraded != "semantic"}
	lines := bufio.NewScanner(res.BodyStream())
	for lines.Scan() {
		line(lines.Bytes())
	}
	if err := errors.Join(lines.Err(), res.CloseBodyStream()); err != nil {
		return r, fmt.Errorf("read answer: %w", err)
	}
	return r, nil
}

// noLines is for answers whose lines don't matter.
func noLines([]byte) {}
