// Command unloop is a plugin of Bifrost that asks Unloop before each request. It needs Bifrost's
// own version of Go and of its modules:
//
//	go get github.com/maximhq/bifrost/core@YOUR_VERSION
//	go build -buildmode=plugin -o unloop.so plugin.go
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/maximhq/bifrost/core/schemas"
)

// config is the plugin's part of Bifrost's configuration.
type config struct {
	// Address is that of Unloop's gateway, and Key what it lets Bifrost in by, if it asks.
	Address string `json:"address"`
	Key     string `json:"key"`
	// TimeoutMS bounds the wait for an answer, in milliseconds.
	TimeoutMS int `json:"timeout_ms"`
	// FailClosed refuses requests while Unloop is away.
	FailClosed bool `json:"fail_closed"`
}

// maxAnswer bounds an answer of Unloop, in bytes.
const maxAnswer = 1 << 20

var settings config

// Init reads the configuration.
func Init(given any) error {
	settings = config{Address: "http://127.0.0.1:8080", TimeoutMS: 1000}
	text, err := json.Marshal(given)
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		return fmt.Errorf("read the configuration of the plugin unloop: %w", err)
	}
	return nil
}

// GetName returns the plugin's name.
func GetName() string { return "unloop" }

// Cleanup has nothing to clean up.
func Cleanup() error { return nil }

// HTTPTransportPreHook lets a request go on, or answers it as Unloop does.
func HTTPTransportPreHook(_ *schemas.BifrostContext, req *schemas.HTTPRequest) (*schemas.HTTPResponse, error) {
	answer, err := ask(req)
	switch {
	case err == nil:
		return answer, nil
	case settings.FailClosed:
		return &schemas.HTTPResponse{
			StatusCode: http.StatusServiceUnavailable, Headers: map[string]string{"Content-Type": "application/json"},
			Body: []byte(`{"error":{"message":"Unloop can't be asked","type":"api_error","code":"unloop_unreachable"}}`),
		}, nil
	default:
		return nil, nil
	}
}

// ask returns how Unloop answers a request; nil if it lets the request pass.
func ask(req *schemas.HTTPRequest) (*schemas.HTTPResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(settings.TimeoutMS)*time.Millisecond)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(settings.Address, "/")+"/unloop/v1/beside/bifrost", bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	describe(q.Header, req)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil || res.StatusCode < http.StatusBadRequest {
		return nil, err
	}
	answer := &schemas.HTTPResponse{StatusCode: res.StatusCode, Headers: map[string]string{}, Body: body}
	for _, name := range []string{"Content-Type", "Retry-After", "X-Should-Retry", "X-Loop-Action", "X-Loop-Reason", "X-Loop-Count"} {
		if value := res.Header.Get(name); value != "" {
			answer.Headers[name] = value
		}
	}
	return answer, nil
}

// describe writes what is asked about into headers.
func describe(h http.Header, req *schemas.HTTPRequest) {
	for name, value := range req.Headers {
		switch http.CanonicalHeaderKey(name) {
		case "Accept-Encoding", "Connection", "Content-Length", "Host", "Origin", "Transfer-Encoding", "Upgrade":
		default:
			h.Set(name, value)
		}
	}
	if session := h.Get("X-Bf-Session-Id"); session != "" && h.Get("X-Session-Id") == "" {
		h.Set("X-Session-Id", session)
	}
	if settings.Key != "" {
		h.Set("X-Unloop-Key", settings.Key)
	}
	query := url.Values{}
	for name, value := range req.Query {
		query.Set(name, value)
	}
	h.Set("X-Forwarded-Method", req.Method)
	h.Set("X-Forwarded-Uri", strings.TrimSuffix(req.Path+"?"+query.Encode(), "?"))
}

func main() {} // a plugin has one that nobody calls
