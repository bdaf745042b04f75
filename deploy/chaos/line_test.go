package chaos

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
)

// line is a TCP proxy between services and NATS. It can be cut, so that nothing passes
// and no connection is closed, and it can refuse all clients.
type line struct {
	ln net.Listener
	to string

	mu       sync.Mutex
	passable chan struct{} // closed while the line is not cut
	refusing bool
	conns    map[net.Conn]struct{}
}

func newLine(to string) (*line, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l := &line{ln: ln, to: to, passable: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(l.passable)
	go l.accept()
	return l, nil
}

func (l *line) addr() string { return l.ln.Addr().String() }

// cut holds all bytes back until join.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passable = make(chan struct{})
}

// join ends a cut. Bytes that were sent meanwhile arrive.
func (l *line) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.passable)
}

// refuse begins or ends refusing: all clients are disconnected, and new ones get the
// error for a wrong password.
func (l *line) refuse(clients bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusing = clients
	if clients {
		for conn := range l.conns {
			_ = conn.Close()
		}
	}
}

func (l *line) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusing
}

func (l *line) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passable
}

// track notes an open connection; untrack closes it.
func (l *line) track(conn net.Conn) (untrack func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	return func() {
		_ = conn.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, conn)
	}
}

func (l *line) accept() {
	for {
		client, err := l.ln.Accept()
		if err != nil {
			return
		}
		go l.connect(client)
	}
}

func (l *line) connect(client net.Conn) {
	defer l.track(client)()
	<-l.gate()
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer l.track(server)()
	if l.refuses() {
		refuseOne(client, server)
		return
	}
	go func() {
		defer func() { _ = client.Close() }()
		l.pass(client, server)
	}()
	l.pass(server, client)
}

// refuseOne passes the server's greeting to a client and refuses its login.
func refuseOne(client, server net.Conn) {
	info, err := bufio.NewReader(server).ReadBytes('\n')
	if err == nil {
		_, err = client.Write(info)
	}
	if err == nil {
		_, err = bufio.NewReader(client).ReadBytes('\n')
	}
	if err == nil {
		_, _ = io.WriteString(client, "-ERR 'Authorization Violation'\r\n") // it may have gone
	}
}

func (l *line) pass(to, from net.Conn) {
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		<-l.gate()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *line) close() { _ = l.ln.Close() }
