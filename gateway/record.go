package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/record"
)

const (
	// maxQueued and maxQueuedBytes bound what waits to be written; more is lost,
	// since no request waits for a disk.
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// recordedHeaders are those that say how a request is read, and what policies
// often look at. None of them bears a secret.
var recordedHeaders = []string{
	"Content-Type", "Anthropic-Version", "Anthropic-Beta", "Host", "User-Agent", "X-Stainless-Retry-Count", "X-Request-Id",
}

// secretQueries are parameters that bear keys.
var secretQueries = []string{"key", "api_key", "api-key", "apikey", "access_token", "token", "auth", "signature", "sig", "subscription-key"}

// errOpenRecording refuses to write prompts where others can read them.
var errOpenRecording = errors.New("others can read it; make it yours alone with chmod 600")

// recorder appends requests and their answers to a file, one JSON object a line,
// for `unloop replay`. A nil recorder records nothing.
type recorder struct {
	file   *os.File
	log    *slog.Logger
	queue  chan *line
	queued atomic.Int64 // bytes
	failed bool
	lines  *prometheus.CounterVec
}

// line is a request, or the answer to one, on its way into the file.
type line struct {
	request *record.Record
	body    []byte              // of the request
	hash    func(string) string // for what of the body must not be written
	answer  *record.Answer
}

// newRecorder opens the file; without a name there is no recorder.
func newRecorder(name string, log *slog.Logger, reg prometheus.Registerer) (*recorder, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open --record: %w", err)
	}
	if info, err := file.Stat(); err != nil || info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("open --record %s: %w", name, errors.Join(err, errOpenRecording))
	}
	r := &recorder{
		file: file, log: log, queue: make(chan *line, maxQueued),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_gateway_recorded_total", Help: "Lines of the recording, request or answer, by what became of them: written or lost.",
		}, []string{"line", "result"}),
	}
	reg.MustRegister(r.lines)
	return r, nil
}

// record writes a request down as it came, before it is forwarded, which may
// change its body. What it returns writes down what came of it.
func (g *Gateway) record(x *exchange) (answered func()) {
	if g.recorder == nil {
		return func() {}
	}
	r := x.recorded(g.now(), g.pseudonym())
	if !g.recorder.put(r) {
		return func() {}
	}
	x.recording = true
	return func() {
		a := &record.Answer{
			Version: record.Version, To: r.request.ID, Time: g.now().UTC(), Status: x.status,
			InputTokens: x.usage.Input, CachedTokens: x.usage.Cached, OutputTokens: x.usage.Output,
		}
		if price, known := x.rules.Price(x.Model()); known {
			a.USD = price.USD(a.InputTokens, a.CachedTokens, a.OutputTokens)
		}
		g.recorder.put(&line{answer: a})
	}
}

// pseudonym returns what hashes names in recordings: the hash is the same in all
// gateways of a cluster, and nobody without their key can test guesses. Without a
// key all names are alike.
func (g *Gateway) pseudonym() func(string) string {
	if hasher := g.hasher.Load(); hasher != nil {
		return hasher.Pseudonym
	}
	return func(string) string { return "unknown" }
}

func (x *exchange) recorded(at time.Time, hash func(string) string) *line {
	out := &line{body: x.Body.Inspected(), hash: hash, request: &record.Record{
		Version: record.Version, ID: nuid.Next(), Time: at.UTC(), Method: x.Method, Upstream: x.Target.Upstream,
		Path:   scrubbedPath(withoutSecrets(x.r.URL), hash),
		Header: x.recordedHeader(), Model: cmp.Or(x.Model(), x.check.GetModel()), TenantVerified: x.Client.Tenanted,
		Tenant: x.Identity.GetTenant(), Project: x.Identity.GetProject(), Caller: x.Identity.GetCaller(),
		Action: action(x), Operator: x.operator,
	}}
	if x.namesSession() {
		out.request.Session = x.Identity.GetSession()
	} else {
		out.request.DerivedSession = x.Identity.GetSession()
	}
	if x.Body.Rest != nil {
		out.body, out.request.Length = nil, max(x.Body.Length, int64(len(x.Body.Bytes)))
	}
	return out
}

// action is what is done about the request, "" for nothing.
func action(x *exchange) string {
	if f := strongest(x.decision); f != nil {
		return f.GetAction().Label()
	}
	return ""
}

// namesSession says whether the session has an id of its own. Of a request that
// was recognised without being read, its check knows.
func (x *exchange) namesSession() bool {
	own := x.OwnSession
	for _, w := range x.check.GetWatches() {
		own = own || w.GetHistory().GetOwn()
	}
	return own
}

// recordedHeader has the headers above, and those that the bundle looks at,
// unless they bear a key.
func (x *exchange) recordedHeader() map[string]string {
	names := slices.Clone(recordedHeaders)
	for _, name := range x.rules.headers {
		if !secretHeader(name) {
			names = append(names, name)
		}
	}
	out := map[string]string{"host": x.Host}
	for _, name := range names {
		if value := strings.Join(x.Header.Values(name), ","); value != "" {
			out[strings.ToLower(name)] = value
		}
	}
	if x.Body.Text == nil && x.Header.Get("Content-Encoding") != "" {
		out["content-encoding"] = x.Header.Get("Content-Encoding")
	}
	return out
}

func secretHeader(name string) bool {
	name = strings.ToLower(name)
	if name == "x-token-estimate" { // a number of tokens
		return false
	}
	for _, part := range []string{"authorization", "key", "token", "secret", "cookie", "signature"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// withoutSecrets is the path with its query, in which keys are left out.
func withoutSecrets(u *url.URL) string {
	path := u.EscapedPath()
	if u.RawQuery == "" {
		return path
	}
	pairs := slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		return slices.Contains(secretQueries, strings.ToLower(name))
	})
	if len(pairs) == 0 {
		return path
	}
	return path + "?" + strings.Join(pairs, "&")
}

// put hands a line over to the writer, or loses it. It never waits.
func (r *recorder) put(l *line) (ok bool) {
	if r.queued.Add(l.size()) <= maxQueuedBytes {
		select {
		case r.queue <- l:
			return true
		default:
		}
	}
	r.queued.Add(-l.size())
	r.count(l, "lost")
	return false
}

func (l *line) size() int64 { return int64(len(l.body)) }

func (r *recorder) count(l *line, result string) {
	kind := "request"
	if l.answer != nil {
		kind = "answer"
	}
	r.lines.WithLabelValues(kind, result).Inc()
}

// run writes until the context ends, then what is left, and closes the file.
func (r *recorder) run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for {
		select {
		case l := <-r.queue:
			r.write(l)
		case <-ctx.Done():
			for len(r.queue) > 0 {
				r.write(<-r.queue)
			}
			if err := r.file.Close(); err != nil {
				return fmt.Errorf("close --record: %w", err)
			}
			return nil
		}
	}
}

// write appends a line. The first failure of a row is logged.
func (r *recorder) write(l *line) {
	defer r.queued.Add(-l.size())
	text, err := l.encode()
	if err == nil {
		_, err = r.file.Write(text)
	}
	if err != nil {
		if !r.failed {
			r.log.Warn("requests are not recorded", "error", err)
		}
		r.failed = true
		r.count(l, "lost")
		return
	}
	r.failed = false
	r.count(l, "written")
}

// encode is the line's JSON. A body that is none goes in base64.
func (l *line) encode() ([]byte, error) {
	var value any = l.answer
	if l.request != nil {
		if value = l.request; json.Valid(l.body) {
			l.request.Body = scrubbed(l.body, l.hash)
		} else {
			l.request.Bytes = l.body
		}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a recorded request: %w", err)
	}
	return append(text, '\n'), nil
}
