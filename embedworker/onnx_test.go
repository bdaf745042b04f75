//go:build cgo

package embedworker_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker"
	"github.com/unloop/unloop/embedworker/realparts"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/semanticpb"
)

func onnx(tb testing.TB, model string) embedworker.Config {
	tb.Helper()
	c := embedworker.DefaultConfig()
	c.Embedder, c.Model, c.ONNXRuntime = "onnx", model, realparts.ONNXRuntime(tb)
	return c
}

func TestAModelServesManyAtOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	start(t, nc, onnx(t, realparts.TinyModel(t)))
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			session := fmt.Sprint("s", i)
			for round := range 2 {
				reply, err := send(nc, prompt(session, strings.Repeat("the same question ", 1+i%7)+"in other words"))
				if err != nil || reply.GetError() != 0 || reply.GetDetected() != (round == 1) || !strings.HasPrefix(reply.GetEmbedder(), "onnx-") {
					t.Errorf("session %d, round %d: %v, %v", i, round, reply, err)
				}
			}
		})
	}
	wait.Wait()
}

func TestAWorkerThatEndsAnswersWhatItTook(t *testing.T) {
	t.Parallel()
	server := natstest.StartBare(t)
	nc := server.Conn()
	stop := start(t, server.Conn(), onnx(t, realparts.MiniLMModel(t, false)))
	const requests = 8
	inbox := nc.NewRespInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		body, err := proto.Marshal(prompt(fmt.Sprint("end", i), strings.Repeat("a text that takes a while ", 20)+fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.PublishRequest(schemas.SubjectSemantic, inbox, body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := answers.NextMsg(answerTime); err != nil { // the rest is under way
		t.Fatal(err)
	}
	stop()
	for i := range requests - 1 {
		if _, err := answers.NextMsg(answerTime); err != nil {
			t.Fatalf("after %d answers: %v", i+1, err)
		}
	}
}

func TestAFullQueueFailsOpenAtOnce(t *testing.T) {
	t.Parallel()
	nc := natstest.StartBare(t).Conn()
	cfg := onnx(t, realparts.MiniLMModel(t, false))
	cfg.EmbedQueue = 1
	start(t, nc, cfg)
	var wait sync.WaitGroup
	var mu sync.Mutex
	busy := 0
	for i := range 30 {
		wait.Go(func() {
			reply, err := send(nc, prompt(fmt.Sprint("q", i), strings.Repeat("a long text that keeps the model busy ", 30)+fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
			}
			if reply.GetError() == semanticpb.SemanticError_SEMANTIC_ERROR_BUSY {
				mu.Lock()
				busy++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if busy == 0 || busy == 30 {
		t.Errorf("%d of 30 were refused", busy)
	}
}
