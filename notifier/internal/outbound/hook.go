package outbound

import (
	"context"
	"net"
	"net/http"

	"github.com/unloop/unloop/notifier/internal/sink"
)

// Hook is a sink that posts one JSON body for each message.
type Hook struct {
	*Client
	url  string
	body func(*sink.Message) ([]byte, error)
}

// NewHook returns a sink that posts what body returns to a URL.
func NewHook(d *net.Dialer, url string, body func(*sink.Message) ([]byte, error)) *Hook {
	return &Hook{NewClient(d), url, body}
}

// Send posts the message.
func (h *Hook) Send(ctx context.Context, m *sink.Message) error {
	body, err := h.body(m)
	if err != nil {
		return sink.Rejectf("the message cannot be written: %s", err)
	}
	_, err = h.Post(ctx, h.url, http.Header{}, body)
	return err
}
