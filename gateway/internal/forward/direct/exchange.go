package direct

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// exchange is a request over a connection, and the body of its answer. At the body's end,
// the connection becomes idle. It belongs to one goroutine.
type exchange struct {
	io.ReadCloser       // the content of the answer
	c             *conn // nil after the end
	to            *pool
	ctx           context.Context // the request's
	stop          func() bool     // ends the watch over ctx
	unwritten     error           // why the request was not written whole
	keep          bool            // the connection may carry another request
	err           error           // of the end
}

// write writes a request, and reports whether nothing of it was written.
func (x *exchange) write(text []byte) (unsent bool) {
	n, err := x.c.Write(text)
	if err == nil {
		return false
	}
	x.unwritten = err
	if n == 0 {
		x.unwritten = &unsentError{err}
	}
	_ = x.c.SetReadDeadline(time.Now().Add(lastAnswer))
	return n == 0
}

// answer reads the head of the answer.
func (x *exchange) answer(req *http.Request) (*http.Response, error) {
	res, err := x.c.head(req)
	switch {
	case err == nil:
		x.begin(res)
		return res, nil
	case x.ctx.Err() != nil:
		err = context.Cause(x.ctx)
	case x.unwritten != nil:
		err = x.unwritten
	}
	x.end(false)
	return nil, err
}

// begin makes x the body of an answer.
func (x *exchange) begin(res *http.Response) {
	if x.keep = !res.Close && !res.Request.Close; x.unwritten != nil {
		x.keep = false
		_ = x.c.SetReadDeadline(time.Time{})
	}
	if res.Body == http.NoBody {
		x.end(true)
		return
	}
	x.ReadCloser, res.Body = res.Body, x
}

func (x *exchange) Read(p []byte) (int, error) {
	if x.c == nil {
		return 0, x.err
	}
	n, err := x.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	whole := errors.Is(err, io.EOF)
	if !whole && x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	x.err = err
	x.end(whole)
	return n, err
}

// Close ends the connection if the answer was not read to its end.
func (x *exchange) Close() error {
	if x.c != nil {
		x.err = http.ErrBodyReadAfterClose
		x.end(false)
	}
	return nil
}

// end gives the connection back if it may carry another request, else closes it.
func (x *exchange) end(whole bool) {
	c := x.c
	x.c = nil
	if unended := x.stop(); whole && unended && x.keep && c.r.Buffered() == 0 {
		x.to.put(c)
	} else {
		c.close()
	}
}
