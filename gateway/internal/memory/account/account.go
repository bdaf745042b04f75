// Package account settles requests: it reports failed requests to the detectors, so that
// they do not count, corrects reservations to the real cost, and stores the session of an
// answer and the calls that it makes.
//
// It may not know policies, or how a request was decided: it gets the check, the decision
// and the answer.
package account

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/decide/evidence"
	"github.com/unloop/unloop/gateway/internal/memory/answers"
	"github.com/unloop/unloop/gateway/internal/wire/answerscan"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/gateway/internal/wire/usage"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// Detectors receive the results of requests.
type Detectors interface {
	Correct(caller string, corrections []*checkpb.Correction)
	// Outcome reports that a counted request failed, or that its client left (aborted).
	Outcome(check *checkpb.Check, aborted bool)
}

// Store keeps what later requests need of an answer, by the caller and the id of an answer,
// conversation or item. A key is a hash of both, from answers.Key.
type Store interface {
	Put(ctx context.Context, caller, id, session string) error
	PutCalls(ctx context.Context, caller, id string, calls []*checkpb.ToolCall) error
	PutCallsAt(ctx context.Context, key string, calls []*checkpb.ToolCall) error
	// Asker returns what PutAsker stored, or an error.
	Asker(ctx context.Context, caller, id string) (*checkpb.AnswerAsker, error)
	PutAsker(ctx context.Context, caller, id string, asker *checkpb.AnswerAsker) error
	// Finish reports whether this is its first call for an answer.
	Finish(ctx context.Context, caller, id string) (first bool, err error)
}

// Deps is what all accounts share.
type Deps struct {
	Detectors Detectors
	Store     Store
	// Timeout bounds each use of the store.
	Timeout time.Duration
	Now     func() time.Time
	lost    prometheus.Counter
}

// NewDeps returns d with its metrics, which it registers.
func NewDeps(d Deps, reg prometheus.Registerer) *Deps {
	d.lost = metric.Counter(reg, "unloop_gateway_lost_answers_total", "Answers whose session or calls could not be shared with other gateways.")
	return &d
}

// Account is the account of a request that was checked. It is not safe for concurrent use.
type Account struct {
	*Deps
	HTTP     *http.Request
	Request  *request.Request
	Subject  request.Subject
	Evidence evidence.Evidence
	Decision *checkpb.Decision
	// Counted says that a detector counted the request. Uncount resets it.
	Counted bool
	// Metered says that Usage is wanted even if there is no reservation.
	Metered bool
	// Fetcher is the caller that fetches an answer in background mode; "" if callers are not
	// known.
	Fetcher string
	// Status is the status of the answer to the client; 0 before.
	Status int
	// Usage is the usage of the answer, as far as it was read.
	Usage usage.Usage

	// Used, if not nil, is called with Usage if that can be read.
	Used func(usage.Usage)
	// Excused, if not nil, is called if the request has no answer, and Answered when an
	// answer begins.
	Excused, Answered func()

	corrected bool
	// later stores an answer in background mode; nil for others.
	later *watch
}

// reserved returns the reservations that are not yet corrected.
func (a *Account) reserved() []evidence.Verdict {
	if a.corrected {
		return nil
	}
	return Reserved(a.Evidence.Limits, a.Decision)
}

// Reads reports whether the usage in the answer is needed, so that the gateway must be able
// to decode the answer.
func (a *Account) Reads() bool { return a.Metered || len(a.reserved()) > 0 }

// GiveBack corrects the reservations of a request that cost nothing.
func (a *Account) GiveBack() { a.correct(nil) }

// correct corrects the reservations, once. The cost of an answer in background mode is
// corrected either here or where the answer is fetched.
func (a *Account) correct(u *usage.Usage) {
	reserved := a.reserved()
	a.corrected = true
	if len(reserved) == 0 {
		return
	}
	id := ""
	if a.Request.DecisionOnly {
		id = a.Evidence.Check.GetRequestId()
	}
	corrections := Corrections(reserved, u, a.Evidence.At, a.Now(), id)
	if len(corrections) > 0 && (a.later == nil || a.later.id == "" || a.finish(a.later.fetcher, a.later.id)) {
		a.Detectors.Correct(a.Subject.Identity.GetCaller(), corrections)
	}
}

// Uncount tells the detectors, once, that a counted request does not count.
func (a *Account) Uncount() {
	if a.Excused != nil {
		a.Excused()
	}
	if a.Counted {
		a.Counted = false
		a.Detectors.Outcome(a.Evidence.Check, a.aborted())
	}
}

// aborted reports whether the client left during an answer that was no error.
func (a *Account) aborted() bool {
	return a.Status > 0 && a.Status < http.StatusBadRequest && a.HTTP.Context().Err() != nil
}

// failed takes back a request whose answer began with status 200 and is an error.
func (a *Account) failed() {
	a.Status = http.StatusBadGateway
	a.Uncount()
	a.GiveBack()
}

// Answer takes the upstream's answer, and reads its body as it passes to the client. It drops
// the body and the history of the request, since a stream may stay open for minutes.
func (a *Account) Answer(res *http.Response) {
	a.Status = res.StatusCode
	res.Body = answerscan.Watch(res, append(a.follow(res), a.meter(res)...)...)
	a.Request = a.Request.Forwarded()
	if answerscan.IsStream(res.Header) {
		a.Evidence.Check = a.Evidence.Check.Reportable()
	}
	switch {
	case Uncounted(res.StatusCode):
		a.Uncount()
	case a.Answered != nil:
		a.Answered()
	}
}

// meter returns the watcher that corrects the reservations by the usage in the answer, or in
// the part that came before the client or upstream broke off. Without a usage the
// reservations stay; a failed request costs nothing.
func (a *Account) meter(res *http.Response) []answerscan.Watcher {
	switch {
	case !a.Reads() && a.Used == nil:
	case res.StatusCode >= http.StatusBadRequest:
		a.GiveBack()
	case res.StatusCode == http.StatusSwitchingProtocols: // what follows is no answer
	default:
		return []answerscan.Watcher{usage.Meter(func(u usage.Usage, found bool) {
			if found {
				a.Usage = u
				if a.Used != nil {
					a.Used(u)
				}
				a.correct(&u)
			}
		})}
	}
	return nil
}

// follow returns the watchers that store the session of an answer, and its calls if a policy
// evaluates calls: a stored prompt may offer tools that the request does not show. They also
// find an error in an answer with status 200.
func (a *Account) follow(res *http.Response) []answerscan.Watcher {
	format := a.Request.Target.Format
	switch {
	case res.StatusCode != http.StatusOK:
	case !format.Prompt():
		return a.fetched()
	case format.Kept != nil && a.Subject.Identity.GetSession() != "":
		return []answerscan.Watcher{answers.Follow(a.Evidence.CallsWatched, a.watch())}
	case answerscan.IsStream(res.Header), format.Failing:
		return []answerscan.Watcher{answers.Failures(a.failed)}
	}
	return nil
}

// watch returns the watcher of the answer to a prompt.
func (a *Account) watch() *watch {
	caller, prompt := a.Subject.Identity.GetCaller(), a.Request.Prompt
	w := &watch{Deps: a.Deps, kept: a.Request.Target.Format.Kept, session: a.Subject.Identity.GetSession(), failed: a.failed, asker: &checkpb.AnswerAsker{Caller: caller}}
	if prompt == nil { // it was not readable
		return w
	}
	w.asker.Open, w.asker.Referable = evidence.WireCalls(a.Evidence.Open), prompt.Referable
	if prompt.Conversation != "" {
		w.asker.Conversation = answers.Key(caller, prompt.Conversation)
	}
	reserved := a.reserved()
	if a.Fetcher != "" && prompt.Background && (a.Evidence.CallsWatched || len(reserved) > 0) {
		w.fetcher, a.later = a.Fetcher, w
		w.asker.Reserved, w.asker.ReservedAt = stored(reserved), a.Evidence.At.UnixMilli()
	}
	return w
}

// fetched returns the watchers of an answer in background mode that the request fetches.
// They store its calls, and correct the reservations of the original request.
func (a *Account) fetched() []answerscan.Watcher {
	id, kept := fetchedID(a.Request)
	if id == "" {
		return nil
	}
	caller := a.Subject.Identity.GetCaller()
	ctx, cancel := context.WithTimeout(a.HTTP.Context(), a.Timeout)
	defer cancel()
	asker, err := a.Store.Asker(ctx, caller, id)
	if err != nil {
		return nil
	}
	w := &watch{Deps: a.Deps, kept: kept, asker: asker, fetcher: caller, failed: func() {}}
	out := []answerscan.Watcher{answers.Follow(true, w)}
	if len(asker.GetReserved()) == 0 {
		return out
	}
	// An answer that is not finished neither has a usage nor has failed.
	correct := func(u usage.Usage) {
		if corrections := storedCorrections(asker, u, a.Now()); len(corrections) > 0 && a.finish(caller, id) {
			a.Detectors.Correct(caller, corrections)
		}
	}
	w.failed = func() { correct(usage.Usage{}) }
	return append(out, usage.Meter(func(u usage.Usage, found bool) {
		if found {
			correct(u)
		}
	}))
}

// fetchedID returns the id of the answer that a request fetches; "" for none.
func fetchedID(r *request.Request) (id string, kept *provider.Kept) {
	if r.Method != http.MethodGet || r.Target.Format.Prompt() {
		return "", nil
	}
	for _, f := range formats.All {
		if f.Kept == nil {
			continue
		}
		if id = f.Kept.Fetched(r.Path); id != "" {
			return id, f.Kept
		}
	}
	return "", nil
}

// finish reports whether no gateway has corrected the cost of an answer yet. It returns false
// if the store fails, so that the reservations stay.
func (d *Deps) finish(caller, id string) (first bool) {
	d.store(func(ctx context.Context) (err error) {
		first, err = d.Store.Finish(ctx, caller, id)
		return err
	})
	return first
}

// store uses the store, and counts failures. It does not end with the request: the client
// may leave, and continue from the answer later.
func (d *Deps) store(use func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.Timeout)
	defer cancel()
	if err := use(ctx); err != nil {
		d.lost.Inc()
	}
}
