package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	gauges "runtime/metrics"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// deciding is a detector that answers each check with what decide returns.
func deciding(t *testing.T, s *natstest.Server, decide func(*checkpb.Check) *checkpb.Decision) {
	t.Helper()
	detector := s.Conn()
	_, err := detector.QueueSubscribe(schemas.SubjectCheck, schemas.QueueDetector, func(m *nats.Msg) {
		var batch checkpb.CheckBatch
		if err := proto.Unmarshal(m.Data, &batch); err != nil {
			t.Error(err)
			return
		}
		out := &checkpb.DecisionBatch{}
		for _, c := range batch.GetChecks() {
			out.Decisions = append(out.Decisions, decide(c))
		}
		body, err := proto.Marshal(out)
		if err == nil {
			err = m.Respond(body)
		}
		if err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	must(t, detector.Flush())
}

// holding is an upstream that reports each request once it has the body, and answers when
// answer is closed.
func holding(t *testing.T) (url string, came, answer chan struct{}) {
	t.Helper()
	came, answer = make(chan struct{}, 16), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		came <- struct{}{}
		<-answer
	}))
	t.Cleanup(server.Close)
	return server.URL, came, answer
}

// sending sends a body in the background. The channel gets the status of the answer.
func sending(t *testing.T, g *Gateway, key, coding string, body []byte) <-chan int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.Addr()+"/v1/chat/completions", bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	got := make(chan int, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		_ = res.Body.Close()
		got <- res.StatusCode
	}()
	return got
}

// live is the memory of live objects, in bytes.
func live() int64 {
	runtime.GC()
	sample := []gauges.Sample{{Name: "/gc/heap/live:bytes"}}
	gauges.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// A request that waits for its answer takes the memory of its body, however many messages
// that has. The test runs alone, since others use memory too.
func TestARequestThatWaitsTakesItsBodyAlone(t *testing.T) {
	const size, requests = 2 << 20, 4
	part := `{"type":"text","text":"a"},`
	body := []byte(`{"model":"m","messages":[{"role":"user","content":[` + strings.Repeat(part, size/len(part)) + `{"type":"text","text":"b"}]}]}`)
	s := natstest.Start(t)
	url, came, answer := holding(t)
	deciding(t, s, func(*checkpb.Check) *checkpb.Decision { return &checkpb.Decision{} })
	g := following(t, s, at(url))
	run(t, g)
	before := live()
	var statuses []<-chan int
	for i := range requests {
		statuses = append(statuses, sending(t, g, fmt.Sprint("sk-", i), "", body))
	}
	for range requests {
		<-came
	}
	if grown := live() - before; grown > 2*size*requests {
		t.Errorf("%d bodies of %d bytes take %d", requests, size, grown)
	} else {
		t.Logf("%d bodies of %d bytes take %d", requests, size, grown)
	}
	close(answer)
	for _, status := range statuses {
		if got := <-status; got != http.StatusOK {
			t.Errorf("status %d", got)
		}
	}
}

// Whatever is made of a body takes its memory from the account of all bodies first: where
// there is none, the request is refused, and does not reach its upstream.
func TestCopiesOfABodyTakeMemoryFromTheSameAccount(t *testing.T) {
	t.Parallel()
	const size = 400 << 10 // two of them are more than the other caller leaves
	text := strings.Repeat("lorem ipsum ", size/12)
	prompt := `{"model":"m","messages":[{"role":"user","content":"` + text + `"}]`
	broken := `{"model":"m","messages":[{"role":"user","content":"` + text + `"},` +
		`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}]}`
	hint := &checkpb.Decision{Action: checkpb.Action_ACTION_HINT, Findings: []*checkpb.Finding{{
		Policy: "p", Detector: "tool", Action: checkpb.Action_ACTION_HINT, HitCount: 3, Message: "the same again",
	}}}
	for name, c := range map[string]struct {
		coding   string
		body     []byte
		decision *checkpb.Decision
		fits     bool
	}{
		"nothing":  {"", []byte(prompt + "}"), &checkpb.Decision{}, true},
		"decoded":  {"gzip", zipped(t, prompt+`,"a":"`+text+text+`"}`), &checkpb.Decision{}, false},
		"plain":    {"", []byte(prompt + `,"seed":NaN}`), &checkpb.Decision{}, false},
		"hinted":   {"", []byte(prompt + "}"), hint, false},
		"repaired": {"", []byte(broken), &checkpb.Decision{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := natstest.Start(t)
			url, came, answer := holding(t)
			deciding(t, s, func(*checkpb.Check) *checkpb.Decision { return c.decision })
			g := following(t, s, at(url), withBundle(t, fmt.Sprintf("bundle_version: 1\npolicies: [{id: p, spec: {prompt: {}, tool: {}, session_repair: {enabled: %t}}}]", name == "repaired")),
				func(cfg *Config) { cfg.MaxBodyMemory = 2 << 20 })
			run(t, g)
			statuses := []<-chan int{sending(t, g, "sk-other", "", bytes.Repeat([]byte("x"), 900<<10))}
			<-came
			one := sending(t, g, "sk-one", c.coding, c.body)
			select {
			case got := <-one:
				if c.fits || got != http.StatusServiceUnavailable {
					t.Errorf("status %d, fits: %t", got, c.fits)
				}
			case <-came:
				if !c.fits {
					t.Error("the upstream got it")
				}
				statuses = append(statuses, one)
			}
			close(answer)
			for _, status := range statuses {
				if got := <-status; got != http.StatusOK {
					t.Errorf("status %d of a request that fits", got)
				}
			}
		})
	}
}

// zipped returns a text in gzip.
func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	must(t, err)
	must(t, w.Close())
	return out.Bytes()
}
