package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// startPortkey starts Portkey's gateway, which may call programs of this machine.
func startPortkey(t *testing.T) (url string) {
	t.Helper()
	node := need(t, "UNLOOP_TEST_NODE")
	server := filepath.Join(need(t, "UNLOOP_TEST_NODE_MODULES"), "@portkey-ai", "gateway", "build", "start-server.js")
	listen := natstest.FreeAddr(t)
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, node, server, "--headless", "--port="+port)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TRUSTED_CUSTOM_HOSTS=127.0.0.1,localhost"}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	waitPort(t, listen)
	return "http://" + listen
}

// Portkey's own gateway asks as its example says, and denies the sixth equal prompt with the
// reason. While Unloop is away, requests pass.
func TestPortkeyDeniesALoop(t *testing.T) {
	t.Parallel()
	portkey := startPortkey(t)
	upstream := serve(t, nil)
	s, stop := startStoppable(t, upstream.url)
	example, err := os.ReadFile("../beside/portkey/config.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(example), "http://127.0.0.1:8080", s.URL())), &config); err != nil {
		t.Fatal(err)
	}
	config["provider"], config["api_key"], config["custom_host"] = "openai", "sk-test", upstream.url+"/v1"
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	request := prompt("Try once more.")
	request.header.Set("X-Portkey-Config", string(text))
	request.header.Set("X-Portkey-Metadata", `{"session_id":"run-1"}`)
	for n := 1; n <= 5; n++ {
		if got := send(t, portkey, request); got.status != http.StatusOK {
			t.Fatalf("request %d: %d %s", n, got.status, got.body)
		}
	}
	if got := send(t, portkey, request); got.status != 446 || !strings.Contains(string(got.body), "Stopped by Unloop") {
		t.Errorf("the sixth: %d %s", got.status, got.body)
	}
	stop()
	if got := send(t, portkey, request); got.status != http.StatusOK {
		t.Errorf("while Unloop is away: %d %s", got.status, got.body)
	}
}
