package embedworker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/embedworker/internal/sentinel/embeddingpb"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/service"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// answerTime bounds what a test waits for; it is never waited out.
const answerTime = 20 * time.Second

func lexical() embedworker.Config {
	c := embedworker.DefaultConfig()
	c.Embedder = "lexical"
	return c
}

// start runs a worker until the test ends or stop is called.
func start(tb testing.TB, nc *nats.Conn, cfg embedworker.Config, opts ...embedworker.Option) (stop func()) {
	tb.Helper()
	conn, err := natskit.Connect(nc.ConnectedUrl(), "worker", slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return startOn(tb, conn, cfg, opts...)
}

// startOn is start on a connection.
func startOn(tb testing.TB, conn *natskit.Conn, cfg embedworker.Config, opts ...embedworker.Option) (stop func()) {
	tb.Helper()
	return startWith(tb, conn, cfg, prometheus.NewRegistry(), opts...)
}

// startWith is startOn with metrics of the test's own.
func startWith(tb testing.TB, conn *natskit.Conn, cfg embedworker.Config, metrics *prometheus.Registry, opts ...embedworker.Option) (stop func()) {
	tb.Helper()
	w, err := embedworker.New(cfg, service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: metrics, NATS: conn, Layout: natskit.Layout{Memory: true},
	}, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("worker ended with %v", err)
		}
	})
	tb.Cleanup(stop)
	waiting, give := context.WithTimeout(ctx, answerTime)
	defer give()
	if err := w.Readiness().Wait(waiting); err != nil {
		tb.Fatalf("worker is not ready: %v", err)
	}
	return stop
}

// prompt is a request of the default policy, but for its one match.
func prompt(session, text string) *semanticpb.SemanticRequest {
	return &semanticpb.SemanticRequest{
		ScopeKind: semanticpb.ScopeKind_SCOPE_KIND_SESSION, ScopeKey: session,
		Subject:   &semanticpb.SemanticRequest_Text{Text: text},
		Threshold: .95, MinMatches: 1, HistorySize: 5, TtlSeconds: 3600, MinWords: 4,
	}
}

func exchange(session, said, answered string) *semanticpb.SemanticRequest {
	r := prompt(session, "")
	r.Subject = &semanticpb.SemanticRequest_Exchange{Exchange: &semanticpb.Exchange{Said: said, Answered: answered}}
	return r
}

func send(nc *nats.Conn, r *semanticpb.SemanticRequest) (*semanticpb.SemanticReply, error) {
	body, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	msg, err := nc.Request(schemas.SubjectSemantic, body, answerTime)
	if err != nil {
		return nil, err
	}
	reply := new(semanticpb.SemanticReply)
	return reply, proto.Unmarshal(msg.Data, reply)
}

func ask(tb testing.TB, nc *nats.Conn, r *semanticpb.SemanticRequest) *semanticpb.SemanticReply {
	tb.Helper()
	reply, err := send(nc, r)
	if err != nil {
		tb.Fatalf("ask: %v", err)
	}
	return reply
}

const question = "Which planets of the solar system have rings?"

func TestTheSecondOfTwoPromptsIsALoop(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	start(t, nc, lexical())
	if r := ask(t, nc, prompt("s", question)); r.GetDetected() || !r.GetJudged() || r.GetError() != 0 || r.GetEmbedder() != "lexical-1" {
		t.Errorf("first: %v", r)
	}
	second := prompt("s", "Again, please: which planets of the solar system have rings?")
	second.RequestId = "two"
	if r := ask(t, nc, second); !r.GetDetected() || r.GetMaxSimilarity() <= .95 || len(r.GetMatches()) != 1 || r.GetMatches()[0].GetText() != "" {
		t.Errorf("second: %v", r)
	}
	third := prompt("s", question)
	third.MinMatches = 2
	if r := ask(t, nc, third); !r.GetDetected() || len(r.GetMatches()) != 2 || r.GetMatches()[0].GetRequestId() != "two" {
		t.Errorf("third, two matches needed: %v", r)
	}
	for name, other := range map[string]*semanticpb.SemanticRequest{
		"another session": prompt("t", question),
		"another scope":   {ScopeKind: semanticpb.ScopeKind_SCOPE_KIND_TENANT, ScopeKey: "s", Subject: third.Subject, Threshold: .95},
	} {
		if r := ask(t, nc, other); r.GetDetected() || r.GetCompared() != 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestTwoAtTheSameMoment(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	for range 2 {
		start(t, server.Conn(), lexical())
	}
	nc := server.Conn()
	for i := range 20 {
		var detected atomic.Int64
		var wait sync.WaitGroup
		for range 2 {
			wait.Go(func() {
				reply, err := send(nc, prompt(fmt.Sprint("both", i), question))
				if err != nil || reply.GetError() != 0 {
					t.Errorf("%v, %v", reply, err)
				}
				if reply.GetDetected() {
					detected.Add(1)
				}
			})
		}
		wait.Wait()
		if detected.Load() < 1 {
			t.Errorf("round %d: neither was detected", i)
		}
	}
}

func TestAnExchangeWithANewAnswerIsProgress(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	start(t, nc, lexical())
	ask(t, nc, exchange("s", "Let me look at the deployment.", "status: pending"))
	if r := ask(t, nc, exchange("s", "Let me look at the deployment again.", "status: finished, all healthy")); r.GetDetected() {
		t.Errorf("new answer: %v", r)
	}
	if r := ask(t, nc, exchange("s", "Let me look at the deployment again.", "status: pending")); !r.GetDetected() {
		t.Errorf("same answer: %v", r)
	}
}

func TestWhatIsForgotten(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	var offset atomic.Int64
	began := time.Now()
	start(t, nc, lexical(), embedworker.WithClock(func() time.Time { return began.Add(time.Duration(offset.Load())) }))
	ask(t, nc, prompt("old", question))
	offset.Store(int64(time.Hour))
	if r := ask(t, nc, prompt("old", question)); r.GetDetected() || r.GetCompared() != 0 {
		t.Errorf("after its time to live: %v", r)
	}
	ask(t, nc, prompt("six", question))
	for _, other := range []string{"volcanoes in Iceland", "bread without yeast", "the rules of cricket", "knots for sailors", "how bees dance"} {
		ask(t, nc, prompt("six", "Tell me something about "+other))
	}
	if r := ask(t, nc, prompt("six", question)); r.GetDetected() || r.GetCompared() != 5 {
		t.Errorf("the first of six: %v", r)
	}
}

// Histories age by the NATS server's clock, whatever the machines' clocks show.
func TestWorkersWhoseClocksDisagreeShareHistories(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Conn()
	for _, off := range []time.Duration{0, 4000 * time.Hour, -4000 * time.Hour} {
		start(t, nc, lexical(), embedworker.WithLocalClock(func() time.Time { return time.Now().Add(off) }))
	}
	ask(t, nc, prompt("s", question))
	for i := range 12 {
		if r := ask(t, nc, prompt("s", question)); !r.GetDetected() {
			t.Errorf("request %d: %v", i+2, r)
		}
	}
}

func TestRequestsWithoutAVerdictSayWhy(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	nc := server.Conn()
	start(t, nc, lexical())
	bad := prompt("s", question)
	bad.Threshold = 7
	for name, r := range map[string]*semanticpb.SemanticRequest{
		"nothing at all": {}, "no text": prompt("s", "  "), "no scope": prompt("", question), "a threshold of 7": bad,
		"no word": {ScopeKey: "s", Subject: &semanticpb.SemanticRequest_Text{Text: "..."}, Threshold: .9},
	} {
		if reply := ask(t, nc, r); reply.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_INVALID || reply.GetErrorMessage() == "" {
			t.Errorf("%s: %v", name, reply)
		}
	}
	msg, err := nc.Request(schemas.SubjectSemantic, []byte("\xff\xff"), answerTime)
	reply := new(semanticpb.SemanticReply)
	if err != nil || proto.Unmarshal(msg.Data, reply) != nil || reply.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_INVALID {
		t.Errorf("malformed: %v, %v", reply, err)
	}
	if r := ask(t, nc, prompt("s", "yes, go on")); r.GetJudged() || r.GetError() != 0 {
		t.Errorf("three words: %v", r)
	}
}

func TestAKilledWorkerIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	nc := server.Conn()
	stop := start(t, server.Conn(), lexical())
	ask(t, nc, prompt("s", question))
	stop()
	body, err := proto.Marshal(prompt("s", question))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Request(schemas.SubjectSemantic, body, answerTime); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("without a worker: got %v, want no responders at once", err)
	}
	start(t, server.Conn(), lexical())
	if r := ask(t, nc, prompt("s", question)); !r.GetDetected() {
		t.Errorf("the next worker forgot: %v", r)
	}
}

func TestDetectionIsBackAfterNATSRestarted(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	cfg := natskit.EmbeddedConfig{Listen: natstest.FreeAddr(t), DataDir: dir}
	server, err := natskit.StartEmbedded(cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	connect := func() *natskit.Conn {
		nc, err := natskit.Connect(server.URL(), "test", log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	worker, client := connect(), connect()
	nc := client.NATS()
	startOn(t, worker, lexical())
	changed, stopListening := client.Changed()
	defer stopListening()
	changedToo, stopListeningToo := worker.Changed()
	defer stopListeningToo()
	ask(t, nc, prompt("s", question))
	server.Stop()
	if server, err = natskit.StartEmbedded(cfg, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	<-changed
	<-changedToo
	if err := worker.NATS().FlushTimeout(answerTime); err != nil {
		t.Fatal(err)
	}
	untilStored(t, nc)
	ask(t, nc, prompt("s", question))
	if r := ask(t, nc, prompt("s", question)); !r.GetDetected() {
		t.Errorf("after the restart: %v", r)
	}
}

func TestRequestsPassWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := realparts.Redis(t)
	nc := natstest.StartBare(t).Conn()
	cfg := lexical()
	cfg.VectorStore, cfg.Redis = "redis", redis.URL()
	start(t, nc, cfg)
	ask(t, nc, prompt("s", question))
	redis.Stop()
	r := ask(t, nc, prompt("s", question))
	for deadline := time.Now().Add(answerTime); r.GetError() == semanticpb.SemanticError_SEMANTIC_ERROR_LATE && time.Now().Before(deadline); {
		r = ask(t, nc, prompt("s", question)) // a machine under load
	}
	if r.GetError() != semanticpb.SemanticError_SEMANTIC_ERROR_STORE || r.GetDetected() {
		t.Errorf("without Redis: %v", r)
	}
	redis.Start()
	untilStored(t, nc)
	ask(t, nc, prompt("s", question))
	if r := ask(t, nc, prompt("s", question)); !r.GetDetected() {
		t.Errorf("with Redis again: %v", r)
	}
}

// TestThePromptThatGrowsByItsOwnRetry is the classic loop under the default
// policy: eight findings in a row by the twelfth call.
func TestThePromptThatGrowsByItsOwnRetry(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	start(t, nc, lexical())
	text, inARow := "Extract all the names from the letter and return them as JSON.", 0
	for call := 1; call <= 12; call++ {
		r := prompt("retry", text)
		r.MinMatches = 2
		if ask(t, nc, r).GetDetected() {
			inARow++
		} else {
			inARow = 0
		}
		text = "That wasn't valid JSON. Try again: " + text
	}
	if inARow < 8 {
		t.Errorf("%d findings in a row at the twelfth call, want 8", inARow)
	}
}

// untilStored asks until the store answers again.
func untilStored(t *testing.T, nc *nats.Conn) {
	t.Helper()
	r := prompt("until", question)
	r.Peek = true
	for deadline := time.Now().Add(answerTime); ; {
		reply := ask(t, nc, r)
		if reply.GetError() == semanticpb.SemanticError_SEMANTIC_ERROR_NONE {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the store did not come back: %v", reply)
		}
	}
}

func TestABrokenModelStopsTheWorker(t *testing.T) {
	t.Parallel()
	cfg := lexical()
	cfg.Embedder, cfg.Model, cfg.ONNXRuntime = "onnx", t.TempDir(), filepath.Join(t.TempDir(), "lib.so")
	w, err := embedworker.New(cfg, service.Deps{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), NATS: natstest.StartBare(t).Service(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "model") {
		t.Errorf("got %v, want an error that names the model", err)
	}
	if w.Readiness().Err() == nil {
		t.Error("a worker without a model is ready")
	}
}

func TestTheSentinelSocketSharesTheWorker(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "uds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := lexical()
	cfg.UDS = filepath.Join(dir, "s")
	nc, err := natskit.Connect(natstest.StartBare(t).Conn().ConnectedUrl(), "worker", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	metrics := prometheus.NewRegistry()
	startWith(t, nc, cfg, metrics)
	conn, err := grpc.NewClient("unix:"+cfg.UDS, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, want := range []bool{false, true} {
		out := new(embeddingpb.CheckLoopResponse)
		in := &embeddingpb.CheckLoopRequest{TenantId: "acme", Prompt: "go on"}
		if err := conn.Invoke(t.Context(), "/embedding.EmbeddingService/CheckLoop", in, out); err != nil || out.GetLoopDetected() != want {
			t.Errorf("got %v, %v, want %v", out, err, want)
		}
	}
	nameless := conn.Invoke(t.Context(), "/embedding.EmbeddingService/CheckLoop", &embeddingpb.CheckLoopRequest{Prompt: "go on"}, new(embeddingpb.CheckLoopResponse))
	want := map[string]float64{"clear": 1, "detected": 1}
	if nameless != nil {
		want["error"] = 1
	} else {
		want["clear"]++
	}
	if diff := cmp.Diff(want, counted(t, metrics, "unloop_check_loop_total")); diff != "" {
		t.Errorf("calls by result (-want +got):\n%s", diff)
	}
}

// counted are the samples of a counter with one label, by its value.
func counted(t *testing.T, metrics prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			out[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	return out
}

func TestConfigurationFaultsComeTogether(t *testing.T) {
	t.Parallel()
	if err := embedworker.DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	c := embedworker.DefaultConfig()
	c.Embedder, c.VectorStore, c.ModelTokens, c.SentinelTTL = "psychic", "paper", 7, "soon"
	c.SentinelThreshold, c.SentinelHistory = 95, 0
	err := c.Validate()
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, fault := range []string{"psychic", "paper", "tokens", "soon", "threshold", "history"} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is missing from:\n%v", fault, err)
		}
	}
}
