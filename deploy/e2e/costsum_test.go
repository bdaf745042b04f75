package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// several are rules that take a prompt's cost in different units, and one that rejects
// all prompts of an organization that has had one.
const several = `
rules:
  - {name: tpm, limit_keys: [caller], algorithm: token_bucket_llm, algorithm_config: {tokens_per_minute: 1000000, tokens_per_day: 100000000}}
  - {name: usd, limit_keys: [caller], algorithm: cost_based, algorithm_config: {budget: 10000, period: 7d, cost_key: usd, default_cost: 1, staged_actions: [{threshold_percent: 100, action: reject}]}}
  - {name: few, limit_keys: ["header:x-org"], algorithm: token_bucket, algorithm_config: {rps: 0.001, burst: 1}}
`

// spent are tokens, and cents at the prices of the model m.
type spent struct{ tokens, cents float64 }

func (s spent) plus(input, output float64) spent {
	return spent{s.tokens + input + output, s.cents + 0.1*input + 0.2*output}
}

func (s spent) near(other spent) bool {
	return math.Abs(s.tokens-other.tokens) < 1.5 && math.Abs(s.cents-other.cents) < 2
}

// spender is a caller that sends what chance says.
type spender struct {
	*rand.Rand
	t        *testing.T
	url, key string
	want     spent
}

// taken is what the rules have taken of a caller, as a peek tells it.
func (k *spender) taken() (got spent) {
	k.t.Helper()
	c := k.call(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"how many are left?"}]}`)
	peek := send(k.t, k.url, about(c, `,"peek":true`))
	for _, line := range peek.header.Values("Ratelimit") {
		name, rest, _ := strings.Cut(line, ";r=")
		left, _, _ := strings.Cut(rest, ";")
		n, err := strconv.ParseFloat(left, 64)
		switch {
		case err != nil:
			k.t.Fatalf("peek: %s", line)
		case name == `"limits/tpm"`:
			got.tokens = 1_000_000 - n
		case name == `"limits/usd"`:
			got.cents = 1_000_000 - n
		}
	}
	own := spent{}.plus(float64(promptTokens(c.body)), 1)
	return spent{got.tokens - own.tokens, got.cents - own.cents}
}

// reported answers as X-Shape says, with the usage that X-Input and X-Output say.
func reported(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		usage := `{"prompt_tokens":` + r.Header.Get("X-Input") + `,"completion_tokens":` + r.Header.Get("X-Output") + `}`
		shape := r.Header.Get("X-Shape")
		streams := strings.HasPrefix(shape, "stream")
		if streams {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{}}]}\n\n")
		}
		switch shape {
		case "plain":
			_, _ = io.WriteString(w, `{"choices":[],"usage":`+usage+`}`)
		case "plain without usage":
			_, _ = io.WriteString(w, `{"choices":[]}`)
		case "408", "429", "500", "529":
			status, _ := strconv.Atoi(shape)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"usage":`+usage+`}`)
		case "stream":
			_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":"+usage+"}\n\ndata: [DONE]\n\n")
		case "stream with usage in a choice", "stream that the client leaves", "stream that breaks off":
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"usage\":"+usage+"}]}\n\n")
		case "stream with an error":
			_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"no\"}}\n\n")
		}
		_ = http.NewResponseController(w).Flush()
		switch shape {
		case "stream that the client leaves":
			<-r.Context().Done()
		case "stream that breaks off":
			panic(http.ErrAbortHandler)
		}
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	return server.URL
}

func (k *spender) call(body string) call { return chat(body).with("Authorization", "Bearer "+k.key) }

// shapes are ways in which a request can end, by whether the upstream says what it cost,
// and otherwise whether its estimate stands.
var shapes = []struct {
	name             string
	reports, remains bool
}{
	{"plain", true, false}, {"stream", true, false}, {"stream with usage in a choice", true, false},
	{"stream that the client leaves", true, false}, {"stream that breaks off", true, false},
	{"plain without usage", false, true}, {"stream without usage", false, true},
	{"stream with an error", false, false}, {"rejected", false, false},
	{"408", false, false}, {"429", false, false}, {"500", false, false}, {"529", false, false},
}

// spend sends a request, perhaps with a check before it, and returns how it ended.
func (k *spender) spend() string {
	k.t.Helper()
	n, most := 1+k.IntN(4), 1+k.IntN(900)
	shape := shapes[k.IntN(len(shapes))]
	c := k.call(fmt.Sprintf(`{"model":"m","n":%d,"max_tokens":%d,"stream":%t,"messages":[{"role":"user","content":"%d"}]}`,
		n, most, strings.HasPrefix(shape.name, "stream"), asked.Add(1)))
	if shape.name == "rejected" {
		c = c.with("X-Org", "full")
	}
	checked := k.IntN(2) == 0
	if checked {
		c = c.with("X-Unloop-Check", decide(k.t, k.url, about(c, "")).RequestID)
	}
	input, output := 1+k.IntN(3000), 1+k.IntN(3000)
	c = c.with("X-Shape", shape.name).with("X-Input", strconv.Itoa(input)).with("X-Output", strconv.Itoa(output))
	k.deliver(c, shape.name)
	switch {
	case shape.reports:
		k.want = k.want.plus(float64(input), float64(output))
	case shape.remains:
		k.want = k.want.plus(float64(promptTokens(c.body)), float64(n*most))
	}
	return fmt.Sprint(shape.name, ", checked: ", checked)
}

// deliver sends the request and reads its answer, as far as it goes.
func (k *spender) deliver(c call, shape string) {
	k.t.Helper()
	switch shape {
	case "stream that breaks off":
		_, _ = trySend(k.url, c) // the answer ends early
		return
	case "stream that the client leaves":
	default:
		if a := send(k.t, k.url, c); shape == "rejected" && a.status != limited {
			k.t.Errorf("%s: %d", shape, a.status)
		}
		return
	}
	ctx, leave := context.WithCancel(k.t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, c.method, k.url+c.path, strings.NewReader(c.body))
	if err != nil {
		k.t.Fatal(err)
	}
	r.Header = c.header
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for lines := bufio.NewScanner(res.Body); lines.Scan() && !bytes.Contains(lines.Bytes(), []byte("usage")); {
	}
}

// Whatever clients send and upstreams answer, with a check before it or without, and
// whichever rules look at it: what is taken in the end is what the upstream reported, or
// what was estimated where it reports nothing.
func TestReservationsAndCorrectionsAddUpToWhatTheUpstreamReported(t *testing.T) {
	t.Parallel()
	var c clock
	url := start(t, reported(t), c.set, policies(t, rules(several))).URL()
	send(t, url, call{http.MethodGet, "/v1/models", "", http.Header{"X-Org": {"full"}}})
	seed := rand.Uint64()
	for i := range 40 {
		k := &spender{Rand: rand.New(rand.NewPCG(seed, uint64(i))), t: t, url: url, key: fmt.Sprint("sk-spender-", i)}
		var ways []string
		for range 1 + k.IntN(6) {
			ways = append(ways, k.spend())
		}
		got := k.taken()
		for deadline := time.Now().Add(30 * time.Second); !got.near(k.want) && time.Now().Before(deadline); {
			got = k.taken()
		}
		if !got.near(k.want) {
			t.Fatalf("%+v is taken, want %+v (seed %d, caller %d: %s)", got, k.want, seed, i, strings.Join(ways, "; "))
		}
	}
}
