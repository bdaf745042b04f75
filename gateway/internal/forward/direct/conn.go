package direct

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

var (
	errHeader   = fmt.Errorf("the header of the answer is longer than %d bytes", maxHeader)
	errProtocol = errors.New("the server changed the protocol, and nobody had asked for it")
)

// conn is a connection. It belongs to one request at a time.
type conn struct {
	net.Conn
	addr string
	r    *bufio.Reader
	// left is how much of an answer's header may be read, in bytes; negative without bound.
	left int
	// used says that it has carried a request before.
	used bool
	// since is when it became idle.
	since time.Time
	raw   syscall.RawConn
	// look is a function for raw that sets open, and closing is close: they are made once.
	look    func(fd uintptr) (done bool)
	open    bool
	closing func()
}

func newConn(nc net.Conn, addr string) (*conn, error) {
	c := &conn{Conn: nc, addr: addr}
	c.r, c.closing = bufio.NewReader(c), c.close
	c.look = func(fd uintptr) bool {
		c.open = quiet(fd)
		return true
	}
	raw, ok := nc.(syscall.Conn)
	if !ok {
		return c, nil
	}
	var err error
	if c.raw, err = raw.SyscallConn(); err != nil {
		c.close()
		return nil, fmt.Errorf("look at the connection: %w", err)
	}
	return c, nil
}

func (c *conn) close() { _ = c.Close() }

// Read reads from the server.
func (c *conn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errHeader
	}
	if c.left > 0 && len(p) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	if c.left > 0 {
		c.left -= n
	}
	return n, err
}

// alive reports whether an idle connection is open and the server has said nothing.
func (c *conn) alive() bool {
	if c.raw == nil || c.r.Buffered() > 0 {
		return false
	}
	c.open = false
	return c.raw.Read(c.look) == nil && c.open
}

// head reads the head of an answer.
func (c *conn) head(req *http.Request) (*http.Response, error) {
	c.left = maxHeader
	if _, err := c.r.Peek(1); err != nil {
		return nil, &silentError{err}
	}
	for {
		res, err := http.ReadResponse(c.r, req)
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode == http.StatusSwitchingProtocols:
			return nil, errProtocol
		case res.StatusCode >= http.StatusOK:
			c.left = -1
			return res, nil
		}
		if err := told(req, res); err != nil {
			return nil, err
		}
	}
}
