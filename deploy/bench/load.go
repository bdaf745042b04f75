package main

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/unloop/unloop/deploy/bench/measure"
	"github.com/unloop/unloop/deploy/bench/traffic"
)

// promptSize is the size of a short prompt's body in bytes.
const promptSize = 250

// prompt returns a Chat Completions body. Each number gives other words in another
// order.
func prompt(number int64) string {
	const head, tail = `{"model":"gpt-5","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`, `"}]}`
	text := fmt.Sprintf("Summarise ticket %d: ", number)
	text += traffic.Words(rand.New(rand.NewPCG(uint64(number), 0)), promptSize-len(head)-len(tail)-len(text))
	return head + text + tail
}

// shortKey is the API key of short prompts.
const shortKey = "sk-bench-0123456789abcdef"

// httpContender posts bodies to a server, each caller on a connection of its
// own, and expects a status.
func httpContender(name, url string, status int, body func(caller int) string) measure.Contender {
	return measure.Contender{Name: name, Caller: func(_, caller int) (measure.Op, func(), error) {
		conn, err := dial(url)
		if err != nil {
			return nil, nil, err
		}
		op := func(ctx context.Context) error {
			got, err := conn.post(ctx, shortKey, []byte(body(caller)))
			if err == nil && got.status != status {
				err = fmt.Errorf("%w: status %d, want %d", errAnswer, got.status, status)
			}
			return err
		}
		return op, conn.close, nil
	}}
}
