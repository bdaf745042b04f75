package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	"github.com/unloop/unloop/gateway/internal/edge/intake"
)

var (
	errTooMany = errors.New("too many calls at the same time")
	errNoRoom  = errors.New("the gateway holds as many bodies as its memory allows")
)

// prefix is the size of what stands before each message of gRPC: whether it is compressed,
// and its length.
const prefix = 5

// copies is how often a message is held while it is decoded.
const copies = 2

// frames is the body of a call. It takes memory for each message before that is read.
type frames struct {
	io.ReadCloser
	memory *intake.Memory
	max    int
	// head has the n bytes of the next message's prefix that came, and left is how much of the
	// message is still to come.
	head    [prefix]byte
	n, left int
	taken   int
	// fault is why the next message is not read.
	fault error
}

func (f *frames) Read(p []byte) (int, error) {
	if f.fault != nil {
		return 0, f.fault
	}
	if f.left == 0 {
		n, err := f.ReadCloser.Read(p[:min(len(p), prefix-f.n)])
		if f.n += copy(f.head[f.n:], p[:n]); f.n == prefix {
			f.fault = f.begin()
		}
		return n, err
	}
	n, err := f.ReadCloser.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// begin takes the memory for a message whose prefix is there.
func (f *frames) begin() error {
	f.done()
	size := binary.BigEndian.Uint32(f.head[1:])
	f.n = 0
	if int64(size) > int64(f.max) {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("a message of %d bytes is larger than %d; --max-inspect-bytes bounds bodies", size, f.max))
	}
	f.left = int(size)
	if err := f.memory.Take(copies * f.left); err != nil {
		return connect.NewError(connect.CodeUnavailable, errNoRoom)
	}
	f.taken = copies * f.left
	return nil
}

// done gives back the memory of a message that is no longer needed.
func (f *frames) done() {
	f.memory.Give(f.taken)
	f.taken = 0
}
