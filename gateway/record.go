package gateway

import (
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

// recorder appends requests to a file, one JSON object a line, for `unloop
// replay`. A nil recorder records nothing.
type recorder struct {
	file   *os.File
	log    *slog.Logger
	queue  chan *recording
	queued atomic.Int64 // bytes
	failed bool
	lines  *prometheus.CounterVec
}

// recording is a request on its way into the file.
type recording struct {
	record record.Record
	body   []byte
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
		file: file, log: log, queue: make(chan *recording, maxQueued),
		lines: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_gateway_recorded_total", Help: "Requests by what became of their recording: written or lost.",
		}, []string{"result"}),
	}
	reg.MustRegister(r.lines)
	return r, nil
}

// begin notes a request before it is forwarded, which may change its body.
func (r *recorder) begin(x *exchange, at time.Time) *recording {
	if r == nil {
		return nil
	}
	out := &recording{body: x.body.inspected(), record: record.Record{
		Version: record.Version, Time: at.UTC(), Method: x.r.Method, Path: withoutSecrets(x.r.URL), Upstream: x.target.Upstream,
		Header: x.recordedHeader(), Model: x.model(),
		Tenant: x.identity.GetTenant(), Project: x.identity.GetProject(), Caller: x.identity.GetCaller(), Action: action(x),
	}}
	if x.namesSession() {
		out.record.Session = x.identity.GetSession()
	}
	if x.body.rest != nil {
		out.body, out.record.Length = nil, max(x.body.length, int64(len(x.body.bytes)))
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
	own := x.ownSession
	for _, w := range x.check.GetWatches() {
		own = own || w.GetHistory().GetOwn()
	}
	return own
}

// recordedHeader has the headers above, and those that the bundle's rules look
// at, unless they bear a key.
func (x *exchange) recordedHeader() map[string]string {
	names := slices.Clone(recordedHeaders)
	for _, p := range x.rules.Policies() {
		for _, d := range p.LimitKeys {
			if d.Source == "header" && !secretHeader(d.Name) {
				names = append(names, d.Name)
			}
		}
	}
	out := map[string]string{"host": x.r.Host}
	for _, name := range names {
		if value := strings.Join(x.r.Header.Values(name), ","); value != "" {
			out[strings.ToLower(name)] = value
		}
	}
	if x.body.text == nil && x.r.Header.Get("Content-Encoding") != "" {
		out["content-encoding"] = x.r.Header.Get("Content-Encoding")
	}
	return out
}

func secretHeader(name string) bool {
	name = strings.ToLower(name)
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

// end hands a request over to the writer, with the status that it was answered
// with. It never waits.
func (r *recorder) end(out *recording, status int) {
	if r == nil {
		return
	}
	out.record.Status = status
	size := int64(len(out.body))
	if r.queued.Add(size) > maxQueuedBytes {
		r.lose(size)
		return
	}
	select {
	case r.queue <- out:
	default:
		r.lose(size)
	}
}

func (r *recorder) lose(size int64) {
	r.queued.Add(-size)
	r.lines.WithLabelValues("lost").Inc()
}

// run writes until the context ends, then what is left, and closes the file.
func (r *recorder) run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	for {
		select {
		case out := <-r.queue:
			r.write(out)
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
func (r *recorder) write(out *recording) {
	defer r.queued.Add(-int64(len(out.body)))
	line, err := out.line()
	if err == nil {
		_, err = r.file.Write(line)
	}
	if err != nil {
		if !r.failed {
			r.log.Warn("requests are not recorded", "error", err)
		}
		r.failed = true
		r.lines.WithLabelValues("lost").Inc()
		return
	}
	r.failed = false
	r.lines.WithLabelValues("written").Inc()
}

// line is the recording's JSON. A body that is none goes in base64.
func (out *recording) line() ([]byte, error) {
	if json.Valid(out.body) {
		out.record.Body = out.body
	} else {
		out.record.Bytes = out.body
	}
	line, err := json.Marshal(&out.record)
	if err != nil {
		return nil, fmt.Errorf("encode a recorded request: %w", err)
	}
	return append(line, '\n'), nil
}
