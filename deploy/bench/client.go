package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"
)

const chatPath = "/v1/chat/completions"

// client is a connection with just enough of HTTP/1.1 to take little time itself: the
// client of net/http takes as much as its server.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
	path string
}

func dial(url string) (*client, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.DialTimeout("tcp", host, patience) //nolint:noctx // the timeout bounds it
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return &client{conn: conn, in: bufio.NewReader(conn), host: host, path: chatPath}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// reply is what the client reads of an answer.
type reply struct {
	status int
	length int
	// unjudged says that the request was forwarded without a decision, and uncompared that
	// only its text was not compared.
	unjudged, uncompared bool
}

// post sends a body under an API key and returns the answer.
func (c *client) post(ctx context.Context, key string, body []byte) (reply, error) {
	if err := c.send(ctx, key, body); err != nil {
		return reply{}, err
	}
	return c.answer()
}

func (c *client) send(ctx context.Context, key string, body []byte) error {
	deadline := time.Now().Add(2 * patience)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", c.path, c.host, key, len(body))
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// errAnswer is the error for an answer that is not as simple as this client expects.
var errAnswer = errors.New("unexpected answer")

func (c *client) answer() (reply, error) {
	r, err := c.head()
	if err != nil {
		return r, err
	}
	if r.length < 0 {
		return r, fmt.Errorf("%w: no length", errAnswer)
	}
	return r, c.discard(r.length)
}

// discard reads the rest of an answer.
func (c *client) discard(n int) error {
	if _, err := c.in.Discard(max(n, 0)); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// head reads an answer up to its body.
func (c *client) head() (r reply, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil || len(line) < len("HTTP/1.1 200") {
		return r, fmt.Errorf("%w: status line %q: %w", errAnswer, line, err)
	}
	if r.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return r, fmt.Errorf("%w: %w", errAnswer, err)
	}
	return r, c.headers(&r)
}

// stream sends a body and reads a streamed answer, or a refusal. It calls chunk with each
// line of data as it arrives; the line is valid until chunk returns.
func (c *client) stream(ctx context.Context, key string, body []byte, chunk func(line []byte)) (reply, error) {
	if err := c.send(ctx, key, body); err != nil {
		return reply{}, err
	}
	r, err := c.head()
	if err != nil || r.length >= 0 {
		return r, errors.Join(err, c.discard(r.length))
	}
	lines := bufio.NewReader(httputil.NewChunkedReader(c.in))
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == io.EOF:
			_, err = c.in.ReadSlice('\n') // the end of the trailer
			return r, err
		case err != nil:
			return r, fmt.Errorf("read stream: %w", err)
		case len(line) > 1:
			chunk(line)
		}
	}
}

// headers reads the headers; the length is -1 if there is none.
func (c *client) headers(r *reply) (err error) {
	r.length = -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read headers: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return nil
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case strings.EqualFold(string(name), "X-Loop-Degraded"):
			r.uncompared = string(value) == "semantic"
			r.unjudged = !r.uncompared
		case strings.EqualFold(string(name), "Content-Length"):
			if r.length, err = strconv.Atoi(string(value)); err != nil {
				return fmt.Errorf("%w: %w", errAnswer, err)
			}
		}
	}
}
