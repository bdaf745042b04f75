package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// started serves a handler until stop is called. done gets the result.
func started(t *testing.T, cfg Config) (url string, stop func(), done <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- Until(ctx, listener, cfg) }()
	return "http://" + listener.Addr().String(), cancel, result
}

// get returns the body of an answer, and whether its connection is closed.
func get(ctx context.Context, url string) (text string, closed bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", false, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return string(body), res.Close, err
}

func TestRequestsInFlightFinishWhenTheServerIsStopped(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan bool), make(chan bool)
	draining := make(chan bool)
	url, stop, done := started(t, Config{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- true
				<-goOn
			}
			_, _ = io.WriteString(w, "answered")
		}),
		Log: slog.New(slog.DiscardHandler), Draining: func() { close(draining) }, Delay: time.Minute, Grace: time.Minute,
	})
	if text, closed, err := get(t.Context(), url); text != "answered" || closed || err != nil {
		t.Errorf("before: %q, closed %v, %v", text, closed, err)
	}
	slow := make(chan string)
	go func() {
		text, _, err := get(t.Context(), url+"/slow")
		slow <- text
		if err != nil {
			t.Error(err)
		}
	}()
	<-began
	stop()
	<-draining
	if text, closed, err := get(t.Context(), url); text != "answered" || !closed || err != nil {
		t.Errorf("while it drains: %q, closed %v, %v", text, closed, err)
	}
	goOn <- true
	if text := <-slow; text != "answered" {
		t.Errorf("in flight: %q", text)
	}
	select {
	case err := <-done:
		t.Errorf("ended before its delay: %v", err)
	default:
	}
}

func TestRequestsThatDoNotFinishAreCutOff(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	began := make(chan bool)
	url, stop, done := started(t, Config{
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			began <- true
			<-r.Context().Done()
		}),
		Log: slog.New(slog.NewTextHandler(&logged, nil)), Draining: func() {}, Grace: time.Millisecond,
	})
	go func() { _, _, _ = get(t.Context(), url) }()
	<-began
	stop()
	if err := <-done; err != nil || !strings.Contains(logged.String(), "cut off") {
		t.Errorf("ended with %v, logged %q", err, logged.String())
	}
}
