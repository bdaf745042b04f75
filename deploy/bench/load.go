package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/deploy/bench/measure"
)

// promptSize is the size of a request body in bytes.
const promptSize = 250

// prompt returns a Chat Completions body. Each number gives other words in another
// order.
func prompt(number int64) string {
	const head, tail = `{"model":"gpt-5","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`, `"}]}`
	text := fmt.Appendf(nil, "Summarise ticket %d:", number)
	seed := rand.New(rand.NewPCG(uint64(number), 0))
	const size = promptSize - len(head) - len(tail)
	for len(text) < size {
		text = append(append(text, ' '), vocabulary[seed.IntN(len(vocabulary))]...)
	}
	return head + string(text[:size]) + tail
}

// vocabulary are the words of prompts.
var vocabulary = strings.Fields(`account address battery billing blue broken button cable cancel card case
	change charge customer delay delivery device door email error failed file gift green heat invoice item key label late
	light lock login lost mail missing money month number offer order paid parcel password phone photo price printer
	profile question red refund reply return room safe screen sent ship size slow sound stock store tax ticket time
	track truck twice update user version voucher week window wrong year`)

// httpContender posts bodies to a server, each caller on a connection of its
// own, and expects a status.
func httpContender(name, url string, status int, body func(caller int) string) measure.Contender {
	return measure.Contender{Name: name, Caller: func(_, caller int) (measure.Op, func(), error) {
		conn, err := dial(url)
		if err != nil {
			return nil, nil, err
		}
		op := func(ctx context.Context) error {
			got, err := conn.post(ctx, body(caller))
			if err == nil && got != status {
				err = fmt.Errorf("status %d, want %d", got, status)
			}
			return err
		}
		return op, conn.close, nil
	}}
}

// client is a connection with just enough of HTTP/1.1 to take little time itself: the
// client of net/http takes as much as its server.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
}

func dial(url string) (*client, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.DialTimeout("tcp", host, patience) //nolint:noctx // the timeout bounds it
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return &client{conn: conn, in: bufio.NewReader(conn), host: host}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// post sends a body and returns the answer's status.
func (c *client) post(ctx context.Context, body string) (int, error) {
	deadline := time.Now().Add(2 * patience)
	if at, ok := ctx.Deadline(); ok && at.Before(deadline) {
		deadline = at
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return 0, fmt.Errorf("set deadline: %w", err)
	}
	c.out = fmt.Appendf(c.out[:0], "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer sk-bench-0123456789abcdef\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.host, len(body), body)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, fmt.Errorf("send request: %w", err)
	}
	return c.answer()
}

// errAnswer is the error for an answer that is not as simple as this client expects.
var errAnswer = errors.New("unexpected answer")

func (c *client) answer() (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil || len(line) < len("HTTP/1.1 200") {
		return 0, fmt.Errorf("%w: status line %q: %w", errAnswer, line, err)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errAnswer, err)
	}
	length, err := c.headers()
	if err != nil {
		return 0, err
	}
	_, err = c.in.Discard(length)
	if err != nil {
		return 0, fmt.Errorf("read answer: %w", err)
	}
	return status, nil
}

// headers reads the headers and returns the length of the body.
func (c *client) headers() (int, error) {
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, fmt.Errorf("read headers: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(": "))
		if !strings.EqualFold(string(name), "Content-Length") {
			continue
		}
		if length, err = strconv.Atoi(string(value)); err != nil {
			return 0, fmt.Errorf("%w: %w", errAnswer, err)
		}
	}
	if length < 0 {
		return 0, fmt.Errorf("%w: no length", errAnswer)
	}
	return length, nil
}
