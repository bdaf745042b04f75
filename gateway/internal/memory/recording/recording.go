// Package recording appends requests and their answers to a file, one JSON object per line,
// for `unloop replay`. It omits keys, and hashes the names of users, sessions and
// conversations.
//
// It decides nothing about requests. A request never waits for it: lines that do not fit the
// queue are lost, and counted.
package recording

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

	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/gateway/internal/text/scrub"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/metric"
	"github.com/unloop/unloop/schemas/record"
)

// Bounds of the queue: lines, and bytes of their bodies.
const (
	maxQueued      = 4096
	maxQueuedBytes = 64 << 20
)

// recordedHeaders are the headers that determine how a request is read, and those that
// policies often use. None of them holds a secret.
var recordedHeaders = func() []string {
	names := []string{"Content-Type", "Host", "User-Agent", "X-Stainless-Retry-Count", "X-Request-Id"}
	for _, u := range formats.Upstreams {
		if u.Header != "" {
			names = append(names, u.Header)
		}
		names = append(names, u.Recorded...)
	}
	return names
}()

// secretQueries are the query parameters that hold keys.
var secretQueries = []string{"key", "api_key", "api-key", "apikey", "access_token", "token", "auth", "signature", "sig", "subscription-key"}

// errReadable refuses to write prompts to a file that others can read.
var errReadable = errors.New("others can read it; restrict it with chmod 600")

// Recorder writes a recording. A nil Recorder records nothing.
type Recorder struct {
	file   *os.File
	log    *slog.Logger
	queue  chan *line
	queued atomic.Int64 // bytes
	failed bool
	lines  *prometheus.CounterVec
}

// line is one line of the file: a request, or the answer to one.
type line struct {
	request *record.Record
	body    []byte              // of the request
	hash    func(string) string // hashes the names in the body
	answer  *record.Answer
}

// Open opens the file of a recording; without a name it returns nil.
func Open(name string, log *slog.Logger, reg prometheus.Registerer) (*Recorder, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open --record: %w", err)
	}
	if info, err := file.Stat(); err != nil || info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		_ = file.Close() // nothing was written
		return nil, fmt.Errorf("open --record %s: %w", name, errors.Join(err, errReadable))
	}
	return &Recorder{
		file: file, log: log, queue: make(chan *line, maxQueued),
		lines: metric.Counters(reg, "unloop_gateway_recorded_total", "Lines of the recording, request or answer, by what became of them: written or lost.", "line", "result"),
	}, nil
}

// Entry is a request to record.
type Entry struct {
	Request request.Request
	Subject request.Subject
	URL     *url.URL
	At      time.Time
	// Headers are those that policies use.
	Headers []string
	// Check is the check of the request; nil for none. It has the model of a request that
	// was recognized without being parsed, and whether it names its session.
	Check *checkpb.Check
	// Action is the action on a loop; "" for none. Operator is the operator's action.
	Action, Operator string
	// Hash hashes names.
	Hash func(string) string
}

// Request records a request. It returns the id for its answer; "" if the request was lost.
func (r *Recorder) Request(e Entry) (id string) {
	l := e.line()
	if !r.put(l) {
		return ""
	}
	return l.request.ID
}

// Answer records the answer to a request.
func (r *Recorder) Answer(a record.Answer) {
	a.Version, a.Time = record.Version, a.Time.UTC()
	r.put(&line{answer: &a})
}

func (e *Entry) line() *line {
	body, who := e.Request.Body, e.Subject.Identity
	out := &line{body: body.Inspected(), hash: e.Hash, request: &record.Record{
		Version: record.Version, ID: nuid.Next(), Time: e.At.UTC(), Method: e.Request.Method, Upstream: e.Request.Target.Upstream,
		Path:   scrub.Path(withoutSecrets(e.URL), e.Hash),
		Header: e.header(), Model: cmp.Or(e.Request.Model(), e.Check.GetModel()), TenantVerified: e.Subject.Client.Tenanted,
		Tenant: who.GetTenant(), Project: who.GetProject(), Caller: who.GetCaller(),
		Action: e.Action, Operator: e.Operator,
	}}
	if e.namesSession() {
		out.request.Session = who.GetSession()
	} else {
		out.request.DerivedSession = who.GetSession()
	}
	if body.Rest != nil {
		out.body, out.request.Length = nil, max(body.Length, int64(len(body.Bytes)))
	}
	return out
}

// namesSession reports whether the request names its session.
func (e *Entry) namesSession() bool {
	return e.Subject.OwnSession || slices.ContainsFunc(e.Check.GetWatches(), func(w *checkpb.ToolWatch) bool { return w.GetHistory().GetOwn() })
}

// header returns the headers to record, without those that hold keys.
func (e *Entry) header() map[string]string {
	out := map[string]string{"host": e.Request.Host}
	names := slices.Concat(recordedHeaders, slices.DeleteFunc(slices.Clone(e.Headers), excerpt.SecretHeader))
	if e.Request.Body.Text == nil {
		names = append(names, "Content-Encoding")
	}
	for _, name := range names {
		if value := strings.Join(e.Request.Header.Values(name), ","); value != "" {
			out[strings.ToLower(name)] = value
		}
	}
	return out
}

// withoutSecrets returns a URL's path and query without the parameters that hold
// keys.
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

// put queues a line for the writer, or drops it. It never waits.
func (r *Recorder) put(l *line) (ok bool) {
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

func (r *Recorder) count(l *line, result string) {
	kind := "request"
	if l.answer != nil {
		kind = "answer"
	}
	r.lines.WithLabelValues(kind, result).Inc()
}

// Run writes lines until the context ends, then writes what is still queued and closes the
// file.
func (r *Recorder) Run(ctx context.Context) error {
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

// write appends a line. It logs the first of consecutive failures.
func (r *Recorder) write(l *line) {
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

// encode returns the line as JSON. A body that is not JSON is written in base64.
func (l *line) encode() ([]byte, error) {
	var value any = l.answer
	if l.request != nil {
		if value = l.request; json.Valid(l.body) {
			l.request.Body = scrub.Body(l.body, l.hash)
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
