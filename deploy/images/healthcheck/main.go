// Command healthcheck asks a service in the same container whether it is ready. The
// images have no shell or other program that could.
//
//	healthcheck [URL]
//
// Without a URL it asks at the port of UNLOOP_ADMIN, which the services listen at. It exits
// with 0 if the answer is 200, else with 1 and an error message.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// usual is the address of the admin port where UNLOOP_ADMIN names none.
const usual = "127.0.0.1:8081"

// maxAnswer bounds the bytes of an answer in the error message.
const maxAnswer = 4096

func main() {
	url := where(os.Getenv("UNLOOP_ADMIN"))
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := ask(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// where returns the address of the readiness check of a service that listens at admin.
func where(admin string) string {
	host, port, err := net.SplitHostPort(cmp.Or(admin, usual))
	if err != nil {
		return "http://" + usual + "/readyz"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz"
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
