package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// TestAgentsOfTheDemonstrationLoopThroughAnyGateway takes the demonstration apart: a
// model, everything else, and the agents, which restart with new sessions.
func TestAgentsOfTheDemonstrationLoopThroughAnyGateway(t *testing.T) {
	t.Parallel()
	model, _ := background(t, "demo", "model", "--listen", "127.0.0.1:0")
	upstream := model.await(t, `The scripted model is at (http://[0-9.:]+)\.`)[1]
	res, err := http.Get(upstream + "/healthz")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the model's /healthz: %v, %v", res, err)
	}
	defer res.Body.Close()
	up, _ := background(t, "up", "--data-dir", "memory", "--reject", "429", "--check-timeout", "30s", "--upstream", "openai="+upstream,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--log-level", "error")
	gateway := up.await(t, `OpenAI +(http://[0-9.:]+)/v1`)[1]
	agents, stop := background(t, "demo", "agents", "--gateway", gateway, "--fast", "--only", "exact", "--every", "1s")
	const once = `(?s)stopped \(detector prompt, count 6\).*7 requests; 2 of them never reached the model\.`
	agents.await(t, once+".*"+strings.TrimPrefix(once, "(?s)"))
	if code := stop(); code != 0 {
		t.Errorf("the agents ended with %d:\n%s", code, agents)
	}
}

func TestAgentsOfTheDemonstrationNeedAGateway(t *testing.T) {
	t.Parallel()
	code, _, errOut := command(t, "demo", "agents", "--gateway", "http://"+natstest.FreeAddr(t))
	if code != 1 || !strings.Contains(errOut, "use --gateway") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	code, _, errOut = command(t, "demo", "model", "--listen", "0.0.0.0:0")
	if code != 1 || !strings.Contains(errOut, "--listen") || !strings.Contains(errOut, "--insecure") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
