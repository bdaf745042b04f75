package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// This file implements JetStream's API for snapshots (nats-server, server/jetstream_api.go).
// The library jsm.go has it, too, but waits forever if the server goes away in the middle.

const (
	// answerWithin bounds a request, and the wait for the next part of a snapshot.
	answerWithin = 30 * time.Second
	// restoredWithin bounds the restore of a stream after the server has all of it.
	restoredWithin = 10 * time.Minute
	// chunk is the size of the parts of a snapshot, in bytes.
	chunk = 128 << 10
	// knownWithin is the time within which all servers of a cluster know the subject for the
	// parts of a snapshot.
	knownWithin = 2 * time.Second
	// codeClustered is JetStream's error code for several replicas on a single server, as it
	// appears in the text of another error.
	codeClustered = "(10074)"
)

var (
	errConnectionLost = errors.New("the connection to NATS was lost meanwhile")
	errAborted        = errors.New("the server gave up")
	errSilent         = errors.New("the server does not answer")
)

// server is the JetStream API of a NATS server.
type server struct{ js jetstream.JetStream }

// request sends a request to the API and decodes the response.
func (s server) request(ctx context.Context, method, stream string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	msg, err := s.js.Conn().RequestWithContext(ctx, natskit.APISubject(s.js, method+"."+stream), data)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s; perhaps %s has no leader, or this user has no permission for %s", errSilent, answerWithin, stream, method)
	}
	if err != nil {
		return err
	}
	return decode(msg.Data, answer)
}

// decode decodes a response of the API, or returns the error in it.
func decode(data []byte, answer any) error {
	var failed struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(data, &failed); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	return json.Unmarshal(data, answer)
}

// snapshot requests a snapshot of a stream with its consumers, and writes it.
func (s *Stream) snapshot(ctx context.Context, from server, w io.Writer) error {
	nc := from.js.Conn()
	before := nc.Stats().Reconnects
	deliver := nc.NewInbox()
	parts, err := nc.SubscribeSync(deliver)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	defer func() { _ = parts.Unsubscribe() }() // the server notices either way
	if err := parts.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	err = from.request(ctx, "STREAM.SNAPSHOT", s.Name, map[string]any{"deliver_subject": deliver, "chunk_size": chunk}, s)
	if err != nil {
		return err
	}
	for {
		part, err := next(ctx, parts)
		if err != nil {
			return err
		}
		if len(part.Data) == 0 { // the end
			break
		}
		n, err := w.Write(part.Data)
		s.Bytes += int64(n)
		if err != nil {
			return err
		}
		if part.Reply != "" {
			if err := part.Respond(nil); err != nil {
				return fmt.Errorf("take a part: %w", err)
			}
		}
	}
	if nc.Stats().Reconnects != before {
		return errConnectionLost
	}
	return nil
}

// next returns the next part of a snapshot.
func next(ctx context.Context, parts *nats.Subscription) (*nats.Msg, error) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	part, err := parts.NextMsgWithContext(within)
	switch {
	case err != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%w within %s: %w", errSilent, answerWithin, err)
	case err != nil:
		return nil, err
	}
	if status := part.Header.Get("Status"); len(part.Data) == 0 && status != "" && status != "204" {
		return nil, fmt.Errorf("%w: %s %s", errAborted, status, part.Header.Get("Description"))
	}
	return part, nil
}

// restore creates a stream from a snapshot. It fails if the stream exists.
func (s *Stream) restore(ctx context.Context, to server, config any, r io.Reader) (restored State, err error) {
	var place struct {
		DeliverSubject string `json:"deliver_subject"`
	}
	err = to.request(ctx, "STREAM.RESTORE", s.Name, map[string]any{"config": config, "state": s.State}, &place)
	if err != nil {
		return State{}, err
	}
	part := make([]byte, min(chunk, to.js.Conn().MaxPayload()))
	for {
		n, err := io.ReadFull(r, part)
		if n == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return State{}, err
		}
		if err := to.sendKnown(ctx, place.DeliverSubject, part[:n]); err != nil {
			return State{}, err
		}
	}
	var info struct {
		State State `json:"state"`
	}
	err = to.send(ctx, place.DeliverSubject, nil, restoredWithin, &info)
	return info.State, err
}

// sendKnown sends a part of a snapshot. It retries until the server knows the subject.
func (s server) sendKnown(ctx context.Context, subject string, part []byte) error {
	for began := time.Now(); ; {
		err := s.send(ctx, subject, part, answerWithin, nil)
		if !errors.Is(err, nats.ErrNoResponders) || time.Since(began) > knownWithin {
			return err
		}
		select {
		case <-time.After(knownWithin / 100):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends a part of a snapshot, and decodes the response unless answer is nil.
func (s server) send(ctx context.Context, subject string, part []byte, within time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	msg, err := s.js.Conn().RequestWithContext(ctx, subject, part)
	switch {
	case err != nil:
		return fmt.Errorf("send a part: %w", err)
	case len(msg.Data) > 0 && answer == nil:
		return decode(msg.Data, &struct{}{})
	case answer == nil:
		return nil
	}
	return decode(msg.Data, answer)
}
