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

// errAnswer is the error for an answer that was not expected.
var errAnswer = errors.New("unexpected answer")

// client sends requests one after another on its own connection. It uses fasthttp because the
// client of net/http takes as much processor time as its server.
type client struct {
	host   fasthttp.HostClient
	url    string
	header map[string]string
}

// dial returns a client for a path, which may have a query.
func dial(in *instance, path string) *client {
	return &client{url: in.url + path, header: in.header, host: fasthttp.HostClient{
		Addr: strings.TrimPrefix(in.url, "http://"), MaxConns: 1, StreamResponseBody: true, ReadTimeout: 2 * patience, WriteTimeout: patience,
	}}
}

func (c *client) close() { c.host.CloseIdleConnections() }

// open sends a body with an API key, and returns the answer once its headers have arrived.
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

// reply is what the client keeps of an answer.
type reply struct {
	status   int
	degraded string // the header X-Loop-Degraded
}

// post sends a body and, if line is not nil, calls it with each line of the answer as it arrives.
// The line is valid until line returns.
func (c *client) post(key string, body []byte, line func([]byte)) (reply, error) {
	res, err := c.open(key, body)
	if err != nil {
		return reply{}, err
	}
	defer fasthttp.ReleaseResponse(res)
	r := reply{res.StatusCode(), string(res.Header.Peek("X-Loop-Degraded"))}
	lines := bufio.NewScanner(res.BodyStream())
	for lines.Scan() {
		if line != nil {
			line(lines.Bytes())
		}
	}
	if err := errors.Join(lines.Err(), res.CloseBodyStream()); err != nil {
		return r, fmt.Errorf("read answer: %w", err)
	}
	return r, nil
}
