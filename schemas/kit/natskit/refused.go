package natskit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrRefused means that the user's permissions do not allow an action.
var ErrRefused = errors.New("the permissions of this NATS user do not allow it")

// Action is what a server may refuse.
type Action string

// The actions.
const (
	ActionPublish   Action = "publish"
	ActionSubscribe Action = "subscribe"
)

// refusal is an action that the server refused.
type refusal struct {
	action  Action
	subject string
}

// refusalForm is the server's text (nats-server, server/client.go).
var refusalForm = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]*)"`)

// refusalOf reads the client's error; false if it is not a refusal.
func refusalOf(err error) (refusal, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return refusal{}, false
	}
	found := refusalForm.FindStringSubmatch(err.Error())
	switch {
	case found == nil:
		return refusal{ActionPublish, "unknown"}, true
	case strings.EqualFold(found[1], "publish"):
		return refusal{ActionPublish, found[2]}, true
	default:
		return refusal{ActionSubscribe, found[2]}, true
	}
}

// Err describes what was refused and what to do.
func (r refusal) Err() error {
	mend := "see docs/nats.md for the permissions of each service"
	switch name := strings.Split(r.subject, "."); {
	case strings.Contains(r.subject, ".API.STREAM.CREATE."), strings.Contains(r.subject, ".API.STREAM.UPDATE."):
		mend = "run `unloop nats init` as the operator, who may create streams"
	case r.action == ActionSubscribe && name[0] == "_INBOX":
		mend = "set --nats-inbox-prefix to the inboxes of this user"
	}
	return fmt.Errorf("%w: it may not %s to %s; %s", ErrRefused, r.action, r.subject, mend)
}

// creates reports whether the creation of a stream was refused.
func (r refusal) creates() bool {
	return r.action == ActionPublish && strings.Contains(r.subject, ".API.STREAM.CREATE.")
}

// family groups refusals that are logged once: those of one action with the same first tokens
// of the subject.
func (r refusal) family() string {
	const tokens = 5
	parts := strings.SplitN(r.subject, ".", tokens+1)
	return string(r.action) + " " + strings.Join(parts[:min(len(parts), tokens)], ".")
}

// maxFamilies bounds the refusals that are logged in the life of a connection.
const maxFamilies = 64

// refusals counts what the server refused.
type refusals struct {
	publish, subscribe atomic.Uint64
	last               atomic.Int64 // Unix nanoseconds; 0 is never
	mu                 sync.Mutex
	said               map[string]bool
	waiting            map[*waiter]struct{}
	// creations has the times of refused stream creations, by subject.
	creations map[string]time.Time
	// subscriptions has the times of refused subscriptions, by subject.
	subscriptions map[string]time.Time
}

// waiter is a call that ends when one of its subjects is refused.
type waiter struct {
	subjects []string
	end      context.CancelCauseFunc
}

// add counts a refusal, ends the calls that wait on its subject, and reports whether to log
// it.
func (r *refusals) add(one refusal) (log bool) {
	if one.action == ActionPublish {
		r.publish.Add(1)
	} else {
		r.subscribe.Add(1)
	}
	r.last.Store(time.Now().UnixNano())
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.creates() {
		r.creations[one.subject] = time.Now()
	}
	if _, known := r.subscriptions[one.subject]; one.action == ActionSubscribe && (known || len(r.subscriptions) < maxFamilies) {
		if r.subscriptions == nil {
			r.subscriptions = map[string]time.Time{}
		}
		r.subscriptions[one.subject] = time.Now()
	}
	for w := range r.waiting {
		for _, subject := range w.subjects {
			if one.action == ActionPublish && subject == one.subject {
				w.end(one.Err())
			}
		}
	}
	family := one.family()
	if r.said[family] || len(r.said) >= maxFamilies {
		return false
	}
	r.said[family] = true
	return true
}

// againAfter is the time until a refused action is retried, because permissions can change
// without a new connection.
const againAfter = time.Minute

// creation returns the refusal of a stream's creation, unless it is old.
func (r *refusals) creation(subject string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.creations[subject]; !ok || time.Since(at) > againAfter {
		return nil
	}
	return refusal{ActionPublish, subject}.Err()
}

// subscription returns a subject whose last refused subscription was before a time.
func (r *refusals) subscription(before time.Time) (subject string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for subject, at := range r.subscriptions {
		if at.Before(before) {
			return subject, true
		}
	}
	return "", false
}

// regained reports whether the subscription to a subject was not refused since a time; then
// it forgets all refused ones.
func (r *refusals) regained(subject string, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.subscriptions[subject].Before(since) {
		return false
	}
	clear(r.subscriptions)
	clear(r.said)
	return true
}

func (r *refusals) wait(w *waiter) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[w] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, w)
	}
}

// Refused returns the number of refused actions of this connection.
func (c *Conn) Refused(a Action) uint64 {
	if a == ActionPublish {
		return c.refusals.publish.Load()
	}
	return c.refusals.subscribe.Load()
}

// RefusedWithin returns the number of refused actions of this connection if the last one was
// within span; else 0.
func (c *Conn) RefusedWithin(span time.Duration) uint64 {
	if time.Since(time.Unix(0, c.refusals.last.Load())) > span {
		return 0
	}
	return c.Refused(ActionPublish) + c.Refused(ActionSubscribe)
}

// unlessRefused calls do with a context that ends if the server refuses a message to one of
// the subjects: its answer would never come.
func (c *Conn) unlessRefused(ctx context.Context, do func(context.Context) error, subjects ...string) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer c.refusals.wait(&waiter{subjects, end})()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrRefused) {
		return cause
	}
	return err
}

// refused handles a refusal.
func (c *Conn) refused(one refusal) {
	if c.refusals.add(one) {
		c.log.Error("NATS refused an action of this user", "act", one.action, "connection", c.name, "subject", one.subject, "error", one.Err())
	}
}
