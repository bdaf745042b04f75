// Package api serves the HTTP API of the dashboard under /api/v1/: the board, a stream of
// events, and actions of operators. openapi.json describes it.
//
// It does not know where the board's content comes from, or who may use the port.
package api

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/notifier/internal/board"
	"github.com/unloop/unloop/notifier/internal/watch"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/delivery"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/silence"
)

// Prefix begins all paths of the API.
const Prefix = "/api/v1/"

// Document is the description of the API in OpenAPI 3.1.
//
//go:embed openapi.json
var Document []byte

// System reports the state of the system's parts.
type System interface {
	Health(ctx context.Context) watch.Health
	Bundles(ctx context.Context) []board.InForce
	// Endpoints returns the endpoints of this notifier.
	Endpoints() []Endpoint
}

// Operator carries out actions of operators.
type Operator interface {
	// Release ends a loop and returns how many counters restart.
	Release(ctx context.Context, actor, loopID string) (counters int, err error)
	AddSilence(ctx context.Context, actor string, s silence.Silence) (silence.Silence, error)
	ExpireSilence(ctx context.Context, actor, id string) error
	// Sealed reports whether only the operator's command line can store overrides.
	Sealed() bool
	AddOverride(ctx context.Context, actor string, o schemas.Override) error
	EndOverride(ctx context.Context, actor string, o schemas.Override) error
	// Deliver asks a notifier for a delivery, and returns its record in the delivery log.
	Deliver(ctx context.Context, actor string, what operator.Delivery, req delivery.Request) (delivery.Record, error)
	// Audit returns the n newest actions of operators, oldest first.
	Audit(ctx context.Context, n int) ([]schemas.Audit, error)
}

// API serves the API. Make it with New.
type API struct {
	board    *board.Board
	system   System
	operator Operator
	refuse   func() string
	now      func() time.Time
	streams  *streams
}

// New returns the API. refuse returns why clients can't change anything, or "" if they can.
// Event streams end when done is closed.
func New(b *board.Board, s System, o Operator, refuse func() string, now func() time.Time, done <-chan struct{}) *API {
	return &API{board: b, system: s, operator: o, refuse: refuse, now: now, streams: &streams{done: done}}
}

// Handler returns the handler of all paths under Prefix.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET loops":               a.getLoops,
		"GET loops/{id}":          a.getLoop,
		"GET loops/{id}/history":  a.getLoopHistory,
		"GET loops/{id}/rounds":   a.getLoopRounds,
		"POST loops/{id}/release": a.change(a.releaseLoop),
		"GET groups":              a.getGroups,
		"GET timeline":            a.getTimeline,
		"GET events":              a.getEvents,
		"GET stats":               a.getStats,
		"GET policies":            a.getPolicies,
		"GET overrides":           a.getOverrides,
		"POST overrides":          a.change(a.addOverride),
		"DELETE overrides/{action}/{scope}/{value}": a.change(a.endOverride),
		"GET silences":                           a.getSilences,
		"POST silences":                          a.change(a.addSilence),
		"DELETE silences/{id}":                   a.change(a.expireSilence),
		"GET deliveries":                         a.getDeliveries,
		"POST deliveries/{endpoint}/{id}/resend": a.change(a.resendDelivery),
		"GET endpoints":                          a.getEndpoints,
		"POST endpoints/{endpoint}/test":         a.change(a.testEndpoint),
		"POST endpoints/{endpoint}/enable":       a.change(a.enableEndpoint),
		"GET audit":                              a.getAudit,
		"GET health":                             a.getHealth,
		"GET openapi.json":                       getDocument,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Prefix+path, handle)
	}
	mux.HandleFunc(Prefix, notFound(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// methods are the methods of the API.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodDelete}

// notFound answers requests for unknown paths and methods.
func notFound(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, method := range methods {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != Prefix {
				w.Header().Set("Allow", method)
				fail(w, http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not allowed here; use "+method)
				return
			}
		}
		fail(w, http.StatusNotFound, "not_found", "there is no such path; "+Prefix+"openapi.json lists all paths")
	}
}

func getDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(Document) // the client may have left
}

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 64 << 10

// change guards a handler that changes something. It refuses requests to a read-only port, and
// content types that a form on another site could send.
func (a *API) change(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if why := a.refuse(); why != "" {
			fail(w, http.StatusForbidden, "read_only", why)
			return
		}
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, "not_json", "send Content-Type: application/json")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		handle(w, r)
	}
}

// body reads a JSON body into v; an empty one changes nothing. It answers and returns false
// if the body is not valid.
func body(w http.ResponseWriter, r *http.Request, v any) bool {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		fail(w, http.StatusBadRequest, "bad_body", fmt.Sprintf("the body can't be read: %v", err))
		return false
	}
	return true
}

// byActor is the body of a request that has only the operator's name.
type byActor struct {
	Actor string `json:"actor"`
}

// maxActor bounds the name of an actor, in bytes.
const maxActor = 100

// actor returns the sender of a request for the audit: the user of basic authentication, or
// else the given name, and the address.
func actor(r *http.Request, given string) string {
	if user, _, ok := r.BasicAuth(); ok && user != "" {
		given = user
	}
	given = cmp.Or(given, "unknown")
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return strings.ToValidUTF8(given[:min(len(given), maxActor)], "") + "@" + host
}

// problem is the body of an error.
type problem struct {
	Error fault `json:"error"`
}

type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func fail(w http.ResponseWriter, status int, code, message string) {
	answerWith(w, status, problem{fault{code, message}})
}

func answer(w http.ResponseWriter, v any) { answerWith(w, http.StatusOK, v) }

// answerOnly answers with an object of one member.
func answerOnly(w http.ResponseWriter, name string, v any) { answer(w, map[string]any{name: v}) }

func answerWith(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a time that JSON can't represent
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer could not be written as JSON"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have left
}

// number reads a parameter. It answers and returns false if the value is out of bounds.
func number(w http.ResponseWriter, r *http.Request, name string, standard, least, most int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return standard, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		fail(w, http.StatusBadRequest, "bad_parameter", fmt.Sprintf("%s must be a number from %d to %d", name, least, most))
		return 0, false
	}
	return n, true
}

// maxSince bounds how far back a time may be.
const maxSince = 366 * 24 * time.Hour

// since reads a time or a duration before now. It answers and returns false if the value is
// neither.
func (a *API) since(w http.ResponseWriter, r *http.Request, standard time.Duration) (time.Time, bool) {
	text := r.URL.Query().Get("since")
	if text == "" {
		if standard == 0 {
			return time.Time{}, true
		}
		return a.now().Add(-standard), true
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 && ago <= maxSince {
		return a.now().Add(-ago), true
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true
	}
	fail(w, http.StatusBadRequest, "bad_parameter", "since must be a duration such as 1h or 90m, or a time such as 2026-05-22T14:30:00Z")
	return time.Time{}, false
}
