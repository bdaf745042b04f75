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

// prefix is the size of the header of a gRPC message: a compression flag and the length.
const prefix = 5

// copies is how many copies of a message exist while it is decoded.
const copies = 2

// frames is the body of a call. It reserves memory for each message before reading it.
type frames struct {
	io.ReadCloser
	memory *intake.Memory
	max    int
	// head has the first n bytes of the next message's prefix; left is how much of the
	// message is still to come.
	head    [prefix]byte
	n, left int
	taken   int
	// fault is the reason for which the next message is not read.
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

// begin reserves the memory for a message whose prefix was read.
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

// done releases the memory of the last message.
func (f *frames) done() {
	f.memory.Give(f.taken)
	f.taken = 0
}
