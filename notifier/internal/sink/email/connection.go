package email

import (
	"errors"
	"net"
	"net/textproto"
	"sync"
	"sync/atomic"
)

// maxRead bounds what a server may send in one attempt, certificates included, in bytes.
const maxRead = 256 << 10

var errTooMuch = errors.New("the mail server sent too much")

// connection is the connection of one attempt. It is closed at the attempt's end, because the
// library leaves it open after errors.
type connection struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
	stop   func() bool
}

func (c *connection) open(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	if c.closed {
		_ = conn.Close()
	}
	return &limited{Conn: conn}
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		_ = c.conn.Close() // it is no longer needed
	}
	if c.stop != nil {
		c.stop()
	}
}

// limited fails when more than maxRead bytes were read.
type limited struct {
	net.Conn
	read atomic.Int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.read.Add(int64(n)) > maxRead {
		return 0, errTooMuch
	}
	return n, err
}

// status returns the server's status in an error; 0 for none.
func status(err error) int {
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return answer.Code
	}
	return 0
}
