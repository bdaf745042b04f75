// Command healthcheck asks a service in the same container whether it is ready. The
// images have no shell or other program that could.
//
//	healthcheck [URL]
//
// It exits with 0 if the answer is 200, else with 1 and an error message.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// where is the default address of the readiness check of a service.
const where = "http://127.0.0.1:8081/readyz"

// maxAnswer bounds the bytes of an answer in the error message.
const maxAnswer = 4096

func main() {
	url := where
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := ask(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("read URL: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return nil
}
