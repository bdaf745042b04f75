package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// loops is the number of different loops that are blocked.
const loops = 16

// blocked compares refusals of blocked loops with those of a handler that refuses
// everything.
func (b *bench) blocked(ctx context.Context) error {
	upstream, err := startRole(ctx, &b.group, originRole)
	if err != nil {
		return err
	}
	const nameRefuser, nameBlocked = "bare Go handler, 429", "Unloop, blocked loops"
	contenders := []measure.Contender{refused(nameRefuser, upstream.url, refusalPath)}
	for _, rival := range b.rivals() {
		ours, err := b.startUp(ctx, &b.group, unloop{binary: rival.binary, flags: patient}, upstream.url)
		if err != nil {
			return err
		}
		if err := untilBlocked(ctx, ours.url); err != nil {
			return err
		}
		contenders = append(contenders, refused(nameBlocked+rival.suffix, ours.url, chatPath))
	}
	res, err := measure.Compare(ctx, b.plan, contenders...)
	if err != nil {
		return err
	}
	b.printResults(res, nameRefuser, []measure.Figure{measure.Rate, measure.P50, measure.P99}, "blocked loops: %d loops, all answers 429", loops)
	return nil
}

// refused posts loops, each caller on a connection of its own, and expects refusals.
func refused(name, url, path string) measure.Contender {
	return measure.Contender{Name: name, Caller: func(_, caller int) (measure.Op, func(), error) {
		conn, err := dial(url)
		if err != nil {
			return nil, nil, err
		}
		conn.path = path
		op := func(ctx context.Context) error {
			got, err := conn.post(ctx, shortKey, looping(caller))
			if err == nil && got.status != http.StatusTooManyRequests {
				err = fmt.Errorf("%w: status %d, want 429", errAnswer, got.status)
			}
			return err
		}
		return op, conn.close, nil
	}}
}

// untilBlocked sends every loop until it is blocked.
func untilBlocked(ctx context.Context, url string) error {
	for i := range loops {
		conn, err := dial(url)
		if err != nil {
			return err
		}
		var got reply
		for range 20 {
			if got, err = conn.post(ctx, shortKey, looping(i)); err != nil || got.status == http.StatusTooManyRequests {
				break
			}
		}
		conn.close()
		if err != nil || got.status != http.StatusTooManyRequests {
			return fmt.Errorf("loop %d was not blocked: status %d: %w", i, got.status, err)
		}
	}
	return nil
}

// looping is the body of a caller's loop. It has a user of its own, whose workload no other
// loop is.
func looping(caller int) []byte {
	return []byte(strings.Replace(prompt(int64(caller%loops)), "{", fmt.Sprintf(`{"user":"loop-%d",`, caller%loops), 1))
}

// promptSize is the size of a short prompt's body in bytes.
const promptSize = 250

// shortKey is the API key of short prompts.
const shortKey = "sk-bench-0123456789abcdef"

// prompt returns a Chat Completions body. Each number gives other words in another
// order.
func prompt(number int64) string {
	const head, tail = `{"model":"gpt-5","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`, `"}]}`
	text := fmt.Sprintf("Summarise ticket %d: ", number)
	text += traffic.Words(rand.New(rand.NewPCG(uint64(number), 0)), promptSize-len(head)-len(tail)-len(text))
	return head + text + tail
}
