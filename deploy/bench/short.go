package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// loops is the number of different loops that are blocked.
const loops = 16

// askPath is where Envoy asks over HTTP about a request to chatPath.
const askPath = "/unloop/v1/beside/envoy" + chatPath

// blocked compares refusals of blocked loops with those of a handler that refuses everything.
// The warm-up round repeats each loop until it is blocked.
func (b *bench) blocked(ctx context.Context) error {
	post := posts{path: chatPath, want: http.StatusTooManyRequests, body: func(caller int) []byte {
		// Each loop has its own user, so that they are not one workload.
		return []byte(strings.Replace(prompt(int64(caller%loops)), "{", fmt.Sprintf(`{"user":"loop-%d",`, caller%loops), 1))
	}}
	return b.short(ctx, "bare Go handler, 429", refusalPath, "Unloop, blocked loops", post, fmt.Sprintf("blocked loops: %d loops, all answers 429", loops))
}

// beside compares questions of another gateway to Unloop with questions to a server that
// always says yes.
func (b *bench) beside(ctx context.Context) error {
	post := posts{path: askPath, want: http.StatusOK, body: uniquePrompt}
	return b.short(ctx, "empty callout", askPath, "Unloop, callout", post, fmt.Sprintf("callouts over HTTP, prompts of %d bytes", promptSize))
}

// short compares posts to Unloop with the same posts to a path of the upstream.
func (b *bench) short(ctx context.Context, base, path, name string, post posts, title string) error {
	upstream, all, err := b.lineUp(ctx, unloop{name: name, flags: patient})
	if err != nil {
		return err
	}
	bare := post
	bare.path, upstream.name = path, base
	contenders := []measure.Contender{bare.to(upstream)}
	for _, in := range all[1:] {
		contenders = append(contenders, post.to(in))
	}
	return b.compareRates(ctx, title, contenders...)
}

// posts are requests to a path that expect a status. Each caller has its own connection.
type posts struct {
	path string
	want int
	body func(caller int) []byte
}

// warmUps bounds how often the warm-up round sends a request until the status is as expected.
const warmUps = 20

func (p posts) to(in *instance) measure.Contender {
	return measure.Contender{Name: in.name, Caller: func(round, caller int) (measure.Op, func()) {
		conn, tries := dial(in, p.path), 1
		if round == 0 {
			tries = warmUps
		}
		return func(context.Context) (err error) {
			var got reply
			for range tries {
				if got, err = conn.post(shortKey, p.body(caller), nil); err != nil || got.status == p.want {
					return err
				}
			}
			return fmt.Errorf("%w: status %d, want %d", errAnswer, got.status, p.want)
		}, conn.close
	}}
}

// promptSize is the size of a short prompt's body in bytes.
const promptSize = 250

// shortKey is the API key of short prompts.
const shortKey = "sk-bench-0123456789abcdef"

// prompts numbers unique prompts.
var prompts atomic.Int64

func uniquePrompt(int) []byte { return []byte(prompt(prompts.Add(1))) }

// prompt returns a Chat Completions body with random words that depend on number.
func prompt(number int64) string {
	const head, tail = `{"model":"gpt-5","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`, `"}]}`
	text := fmt.Sprintf("Summarise ticket %d: ", number)
	text += traffic.Words(rand.New(rand.NewPCG(uint64(number), 0)), promptSize-len(head)-len(tail)-len(text))
	return head + text + tail
}
