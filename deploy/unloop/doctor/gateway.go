package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/kit/access"
)

// maxAnswer bounds the bytes that Get reads.
const maxAnswer = 1 << 20

// Get fetches a URL with an Unloop key, "" for none, and returns the status and the body.
func Get(ctx context.Context, url, key string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set(access.Header, key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, body, err
}

// get is Get with the timeout of a request.
func (e *examination) get(ctx context.Context, url, key string) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Get(ctx, url, key)
}

// Pong is a gateway's answer to a ping.
type Pong struct {
	Ready bool
	// Proof answers the challenge; see access.Proves.
	Proof string
}

// ErrNotGateway means that another program than an Unloop gateway answers.
var ErrNotGateway = errors.New("the server there is not an Unloop gateway")

// Ping asks a gateway whether it is ready, and for a proof if the challenge is not empty.
func Ping(ctx context.Context, gateway, challenge string) (Pong, error) {
	_, body, err := Get(ctx, gateway+"/unloop/v1/ping?challenge="+challenge, "")
	if err != nil {
		return Pong{}, fmt.Errorf("no gateway answers: %w", err)
	}
	var answer struct {
		Product, Service string
		Pong
	}
	if json.Unmarshal(body, &answer) != nil || answer.Product != "unloop" || answer.Service != "gateway" {
		return Pong{}, ErrNotGateway
	}
	return answer.Pong, nil
}

func (e *examination) checkGateway(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pong, err := Ping(ctx, e.Gateway, "")
	if errors.Is(err, ErrNotGateway) {
		return []Finding{{"gateway port", Fault, "something else than Unloop answers at " + e.Gateway, "stop it, or start Unloop at another port (--listen) and name that with --gateway"}}
	}
	if err != nil {
		return []Finding{{"gateway port", Fault, "nobody answers at " + e.Gateway, "start Unloop with `unloop up`, or name a gateway with --gateway"}}
	}
	e.reachable = true
	if !pong.Ready {
		return []Finding{{"gateway port", Warning, e.Gateway + " answers, but is not ready", "look at its /readyz and its log"}}
	}
	return []Finding{{"gateway port", OK, e.Gateway + " answers", ""}}
}

func (e *examination) checkAdmin(ctx context.Context) []Finding {
	code, body, err := e.get(ctx, e.Admin+"/readyz", e.AdminKey)
	switch {
	case err != nil:
		return []Finding{{"admin port", Warning, "nobody answers at " + e.Admin, "name the admin port with --admin"}}
	case code == http.StatusOK:
		return []Finding{{"admin port", OK, e.Admin + " says that all is ready", ""}}
	case code == http.StatusServiceUnavailable:
		return []Finding{{"admin port", Fault, "not ready: " + strings.Join(strings.Split(strings.TrimSpace(string(body)), "\n"), "; "), "mend what it says"}}
	}
	return []Finding{{"admin port", Warning, fmt.Sprintf("%s answers with status %d to /readyz", e.Admin, code), "something else may listen there; name the admin port with --admin"}}
}

func (e *examination) checkUpstreams(ctx context.Context) []Finding {
	if !e.reachable {
		return nil
	}
	all := make([]Finding, len(e.Upstreams))
	var each sync.WaitGroup
	for i, name := range e.Upstreams {
		each.Go(func() { all[i] = e.upstream(ctx, name) })
	}
	each.Wait()
	all = slices.DeleteFunc(all, func(f Finding) bool { return f.Check == "" })
	// Unused upstreams need not be reachable, but one must be.
	if len(all) > 0 && !slices.ContainsFunc(all, func(f Finding) bool { return f.State == OK }) {
		for i := range all {
			all[i].State = Fault
		}
	}
	return all
}

// Upstreams returns the upstreams to probe by default: "default", and those that have a
// public address and an environment variable by which clients find them.
func Upstreams() (names []string) {
	for _, u := range gateway.Upstreams() {
		if strings.HasPrefix(u.Address, "https:") && len(u.Variables) > 0 {
			names = append(names, u.Name)
		}
	}
	return append(names, "default")
}

// models returns the path at which an upstream lists its models.
func models(name string) string {
	if name == "default" {
		return "/"
	}
	for _, u := range gateway.Upstreams() {
		if u.Name == name && u.Models != "" {
			return u.Models
		}
	}
	return "/v1/models"
}

// upstream asks an upstream for its models through the gateway, without a provider key: any
// answer shows that it is reachable. For an unknown upstream the finding is empty.
func (e *examination) upstream(ctx context.Context, name string) Finding {
	path := "/" + name + models(name)
	began := time.Now()
	code, body, err := e.get(ctx, e.Gateway+path, e.Key)
	took := time.Since(began)
	var refused struct {
		Error struct{ Message string }
	}
	_ = json.Unmarshal(body, &refused) // other answers have no message
	f := Finding{Check: "upstream " + name, State: OK, Detail: fmt.Sprintf("answers with status %d in %s", code, short(took))}
	switch {
	case err != nil:
		f.State, f.Detail = Warning, "the gateway's answer did not come in time"
	case strings.Contains(refused.Error.Message, "could not be reached"):
		f.State, f.Detail = Warning, refused.Error.Message
	case code == http.StatusNotFound && strings.Contains(refused.Error.Message, "no upstream for this path"):
		return Finding{}
	case code == http.StatusUnauthorized && strings.Contains(string(body), access.Header):
		f.State, f.Detail = Warning, "the gateway wants a key"
		f.Mend = "give a key with --key"
		return f
	}
	if f.State != OK {
		f.Mend = "check the network and proxy of the gateway's machine, or name another address with --upstream " + name + "=URL"
	}
	return f
}

const (
	// checks is the number of checks whose latency is measured, slow the median that is
	// worth a warning.
	checks = 20
	slow   = 25 * time.Millisecond
	// tolerated is the number of checks that may go undecided on a busy machine.
	tolerated = 3
)

// own returns the headers of a check by a caller that nobody else is.
func (e *examination) own(nonce string) http.Header {
	h := http.Header{"Authorization": {"Bearer unloop-doctor-" + nonce}}
	maps.Copy(h, e.Header)
	if e.Key != "" {
		h.Set(access.Header, e.Key)
	}
	return h
}

func (e *examination) checkLatency(ctx context.Context) []Finding {
	if !e.reachable {
		return nil
	}
	ask, err := client.New(e.Gateway)
	if err != nil {
		return []Finding{{"latency", Warning, err.Error(), "name the gateway as a URL with --gateway"}}
	}
	nonce := access.NewChallenge()
	var took []time.Duration
	missed := 0
	for range checks {
		began := time.Now()
		d, err := ask.Check(ctx, client.Request{Prompt: nonce, Model: "unloop-doctor", Session: nonce, Peek: true, Header: e.own(nonce)})
		if d == nil {
			return []Finding{{"latency", Warning, "a check got no decision: " + reason(err), "give a key with --key where the gateway asks for one, or look at its log"}}
		}
		if d.Degraded != "" {
			missed++
		}
		if missed > tolerated {
			return []Finding{{"latency", Fault, "checks are not made: " + d.Degraded, "see the findings above about NATS and detectors"}}
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	f := Finding{"latency", OK, fmt.Sprintf("a check takes %s, the slowest of %d %s", short(median), checks, short(took[len(took)-1])), ""}
	if median > slow || missed > 0 {
		f.State, f.Mend = Warning, "requests wait at most --check-timeout (50ms) and then pass unchecked: give the machines more processor time, or raise it"
	}
	return []Finding{f}
}

// reason returns the message of an error of the check API.
func reason(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok {
		return refused.Message
	}
	return err.Error()
}
