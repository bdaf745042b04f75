package natskit

import (
	"errors"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrFull means that a stream that refuses new messages when full is full. It is no fault of
// the server or its disk.
var ErrFull = errors.New("it is full: give it more room with nats stream edit --max-bytes")

// codeStoreFailed is JetStream's error code for a message that was not stored. The
// description has the reason.
const codeStoreFailed jetstream.ErrorCode = 10077

// boundsReached are the server's descriptions of a full stream.
var boundsReached = []string{server.ErrMaxBytes.Error(), server.ErrMaxMsgs.Error()}

// IsFull reports whether a message was refused because its stream is full.
func IsFull(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, ErrFull) || ok && refused.ErrorCode == codeStoreFailed && slices.Contains(boundsReached, refused.Description)
}
