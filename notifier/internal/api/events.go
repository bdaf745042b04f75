package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
)

const (
	// maxStreams bounds the clients that follow events.
	maxStreams = 200
	// heartbeat is the longest time without data on a stream.
	heartbeat = 15 * time.Second
	// gather is how long changes are batched before they are sent to a client.
	gather = 150 * time.Millisecond
	// writeFor bounds how long a write waits for a client that does not read.
	writeFor = 10 * time.Second
	// retryMillis is the time after which a client reconnects.
	retryMillis = 2000
)

// streams bounds the clients that follow events.
type streams struct {
	open atomic.Int64
	done <-chan struct{}
}

// getEvents answers with the newest events, or with a stream of events if the client accepts
// one.
func (a *API) getEvents(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		a.followEvents(w, r)
		return
	}
	limit, ok := number(w, r, "limit", defaultLimit, 1, maxLimit)
	if !ok {
		return
	}
	events := []json.RawMessage{}
	for _, it := range a.board.History.Newest(limit) {
		events = append(events, it.Body)
	}
	answerOnly(w, "events", events)
}

func (a *API) followEvents(w http.ResponseWriter, r *http.Request) {
	defer a.streams.open.Add(-1)
	if a.streams.open.Add(1) > maxStreams {
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, "too_many_streams", fmt.Sprintf("%d clients follow events already", maxStreams))
		return
	}
	last, ok := a.resumeAt(w, r)
	if !ok {
		return
	}
	s := &stream{api: a, out: w, control: http.NewResponseController(w), last: last}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s.run(r)
}

// resumeAt returns the sequence of the last event that the client has; for a new client, that
// of the newest event.
func (a *API) resumeAt(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		text = r.URL.Query().Get("last_event_id")
	}
	if text == "" {
		return a.board.History.Last(), true
	}
	last, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		fail(w, http.StatusBadRequest, "bad_parameter", "Last-Event-ID must be the id of an event of this stream")
		return 0, false
	}
	// Sequences restart when the stream is recreated.
	return min(last, a.board.History.Last()), true
}

// stream is one client that follows events.
type stream struct {
	api     *API
	out     http.ResponseWriter
	control *http.ResponseController
	// last is the sequence of the last event that was sent, seen the versions of the board
	// that the client knows.
	last uint64
	seen board.Versions
	// begun is set after the client was told to read all parts.
	begun bool
}

// run sends events and changes until the client leaves or the service stops.
func (s *stream) run(r *http.Request) {
	if s.write(fmt.Sprintf("retry: %d\n\n", retryMillis)) != nil {
		return
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		versions, news := s.api.board.Versions()
		if s.send(versions) != nil {
			return
		}
		select {
		case <-news:
		case <-beat.C:
			if s.write(": \n\n") != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.api.streams.done:
			return
		}
		select {
		case <-time.After(gather):
		case <-r.Context().Done():
			return
		case <-s.api.streams.done:
			return
		}
	}
}

// send writes new events, and the names of the parts that changed.
func (s *stream) send(now board.Versions) error {
	changed := now.Changed(s.seen)
	if !s.begun {
		changed = board.Parts()
	}
	if len(changed) == 0 {
		return nil
	}
	s.seen, s.begun = now, true
	var text bytes.Buffer
	items, missed := s.api.board.History.After(s.last)
	if missed && s.last > 0 {
		text.WriteString("event: missed\ndata: {}\n\n")
	}
	for _, it := range items {
		fmt.Fprintf(&text, "id: %d\nevent: %s\ndata: ", it.Sequence, it.Type)
		if json.Compact(&text, it.Body) != nil {
			continue // can't happen: it was parsed before
		}
		text.WriteString("\n\n")
		s.last = it.Sequence
	}
	names := make([]string, len(changed))
	for i, p := range changed {
		names[i] = p.String()
	}
	body, err := json.Marshal(map[string][]string{"parts": names})
	if err != nil {
		return err
	}
	fmt.Fprintf(&text, "event: changed\ndata: %s\n\n", body)
	return s.write(text.String())
}

// write sends text at once. It fails if the client does not read.
func (s *stream) write(text string) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(writeFor)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.out.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}
