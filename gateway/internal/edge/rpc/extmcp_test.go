package rpc

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/unloop/unloop/gateway/internal/edge/checkapi"
	"github.com/unloop/unloop/schemas/client"
	"github.com/unloop/unloop/schemas/extmcppb"
)

// busy has a turn for no text that is large. It decides about nothing.
type busy struct {
	checkapi.Decider
	refused int
}

func (b *busy) Turn(_ *http.Request, n int) (func(), *client.Error) {
	if n < 1000 {
		return func() {}, nil
	}
	b.refused++
	return nil, &client.Error{Status: http.StatusServiceUnavailable, Message: "all turns are taken"}
}

// Neither the params of a call nor its result are read without a turn.
func TestLargeCallsOfMCPAreReadInTurn(t *testing.T) {
	t.Parallel()
	decider := &busy{}
	h := New(Config{API: checkapi.New(checkapi.Config{Decider: decider})})
	ctx := context.WithValue(t.Context(), callKey{}, &call{peer: "127.0.0.1:1"})
	large := strings.Repeat("x", 1000)

	asked, err := h.checkRequest(ctx, connect.NewRequest(&extmcppb.McpRequest{Method: toolCall, McpRequest: []byte(large)}))
	if err != nil || asked.Msg.GetError().GetReason() != "all turns are taken" || asked.Msg.GetError().GetCode() != extmcppb.AuthorizationError_RESOURCE_EXHAUSTED {
		t.Errorf("a call: %v, %v", asked, err)
	}
	about := func(text string) *structpb.Struct {
		return &structpb.Struct{Fields: map[string]*structpb.Value{"tool": structpb.NewStringValue("search"), "arguments": structpb.NewStringValue(text)}}
	}
	for _, m := range []*extmcppb.McpResponse{
		{Method: toolCall, MetadataContext: about("{}"), McpResponse: []byte(large)},
		{Method: toolCall, MetadataContext: about(large), McpResponse: []byte("{}")},
	} {
		if told, err := h.checkResponse(ctx, connect.NewRequest(m)); err != nil || told.Msg.GetPass() == nil {
			t.Errorf("a result: %v, %v", told, err)
		}
	}
	if decider.refused != 3 {
		t.Errorf("%d turns were asked for, want 3", decider.refused)
	}
}
