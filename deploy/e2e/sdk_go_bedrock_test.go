//go:build sdks

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	lazy "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"

	"github.com/unloop/unloop/deploy/unloop/system"
)

const (
	bedrockModel  = "us.anthropic.claude-x-v1:0"
	bedrockRegion = "eu-central-1"
	// sealedEvents is the type of Bedrock's streams.
	sealedEvents = "application/vnd.amazon.eventstream"
)

// The access keys of clients and of the gateway.
var (
	clientAccess  = aws.Credentials{AccessKeyID: "AKIACLIENT", SecretAccessKey: "client/secret+1"}
	gatewayAccess = aws.Credentials{AccessKeyID: "ASIAGATEWAY", SecretAccessKey: "gateway/secret+2", SessionToken: "to:ken/3=="}
)

// bedrock is an upstream whose model calls one tool again and again, in the encoding of
// AWS's own library.
type bedrock struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serveBedrock(t *testing.T) *bedrock {
	t.Helper()
	b := &bedrock{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		b.requests, b.bodies = append(b.requests, r), append(b.bodies, string(body))
		n := len(b.bodies)
		b.mu.Unlock()
		b.answer(t, w, r, fmt.Sprint("call_", n))
	}))
	t.Cleanup(b.Close)
	return b
}

// seen returns the requests so far with their bodies.
func (b *bedrock) seen() ([]*http.Request, []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests), slices.Clone(b.bodies)
}

func (b *bedrock) answer(t *testing.T, w http.ResponseWriter, r *http.Request, call string) {
	t.Helper()
	usage := map[string]any{"inputTokens": 8, "outputTokens": 2, "totalTokens": 10}
	use := map[string]any{"toolUseId": call, "name": "weather"}
	if !strings.HasSuffix(r.URL.Path, "stream") {
		w.Header().Set("Content-Type", "application/json")
		use["input"] = map[string]any{"city": "Oslo"}
		content := []map[string]any{{"text": "I look."}, {"toolUse": use}}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"output": map[string]any{"message": map[string]any{"role": "assistant", "content": content}}, "stopReason": "tool_use", "usage": usage, "metrics": map[string]any{"latencyMs": 1},
		})
		return
	}
	events := [][2]any{
		{"messageStart", map[string]any{"role": "assistant"}},
		{"contentBlockDelta", map[string]any{"contentBlockIndex": 0, "delta": map[string]any{"text": "I look."}}},
		{"contentBlockStart", map[string]any{"contentBlockIndex": 1, "start": map[string]any{"toolUse": use}}},
		{"contentBlockDelta", map[string]any{"contentBlockIndex": 1, "delta": map[string]any{"toolUse": map[string]any{"input": `{"city":`}}}},
		{"contentBlockDelta", map[string]any{"contentBlockIndex": 1, "delta": map[string]any{"toolUse": map[string]any{"input": `"Oslo"}`}}}},
		{"messageStop", map[string]any{"stopReason": "tool_use"}},
		{"metadata", map[string]any{"usage": usage, "metrics": map[string]any{"latencyMs": 1}}},
	}
	if strings.Contains(r.URL.Path, "/invoke") {
		events = nil
		for _, event := range []string{`{"type":"message_start","message":{"usage":{"input_tokens":8}}}`, `{"type":"message_stop"}`} {
			events = append(events, [2]any{"chunk", map[string]any{"bytes": []byte(event)}})
		}
	}
	w.Header().Set("Content-Type", sealedEvents)
	for _, event := range events {
		sendSealed(t, w, event[0].(string), event[1])
	}
}

func sendSealed(t *testing.T, w http.ResponseWriter, name string, event any) {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Error(err)
	}
	headers := eventstream.Headers{}
	headers.Set(":message-type", eventstream.StringValue("event"))
	headers.Set(":event-type", eventstream.StringValue(name))
	if err := eventstream.NewEncoder().Encode(w, eventstream.Message{Headers: headers, Payload: payload}); err != nil {
		t.Error(err)
	}
	_ = http.NewResponseController(w).Flush()
}

// checkSignatures expects AWS's own signer to sign each request as it was signed. host is
// the one that was signed; "" is the upstream's own.
func (b *bedrock) checkSignatures(t *testing.T, by aws.Credentials, host string) {
	t.Helper()
	requests, bodies := b.seen()
	for i, r := range requests {
		got := r.Header.Get("Authorization")
		_, list, _ := strings.Cut(got, "SignedHeaders=")
		list, _, _ = strings.Cut(list, ",")
		names := strings.Split(list, ";")
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := http.NewRequestWithContext(t.Context(), r.Method, "https://"+r.Host+r.RequestURI, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again.Host = r.Host; host != "" {
			again.Host = host
		}
		for _, name := range names {
			if values := r.Header.Values(name); values != nil {
				again.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
		if slices.Contains(names, "content-length") {
			again.ContentLength = r.ContentLength
		}
		sum := sha256.Sum256([]byte(bodies[i]))
		if err := v4.NewSigner().SignHTTP(t.Context(), by, again, hex.EncodeToString(sum[:]), "bedrock", bedrockRegion, at); err != nil {
			t.Fatal(err)
		}
		if want := again.Header.Get("Authorization"); got != want {
			t.Errorf("request %d: signed as\n%s, want\n%s", i+1, got, want)
		}
	}
}

// newBedrockSDK is AWS's SDK with its usual retries.
func newBedrockSDK(url string, via *http.Client) *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{
		Region: bedrockRegion, BaseEndpoint: aws.String(url), HTTPClient: via,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return clientAccess, nil }),
	})
}

// bedrockTurn asks for the next message of a conversation.
type bedrockTurn func(ctx context.Context, conversation []types.Message) (types.Message, error)

var weatherTool = &types.ToolConfiguration{Tools: []types.Tool{&types.ToolMemberToolSpec{Value: types.ToolSpecification{
	Name: aws.String("weather"), InputSchema: &types.ToolInputSchemaMemberJson{Value: lazy.NewLazyDocument(map[string]any{"type": "object"})},
}}}}

func converse(sdk *bedrockruntime.Client) bedrockTurn {
	return func(ctx context.Context, conversation []types.Message) (types.Message, error) {
		out, err := sdk.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String(bedrockModel), Messages: conversation, ToolConfig: weatherTool})
		if err != nil {
			return types.Message{}, err
		}
		return out.Output.(*types.ConverseOutputMemberMessage).Value, nil
	}
}

func converseStream(sdk *bedrockruntime.Client) bedrockTurn {
	return func(ctx context.Context, conversation []types.Message) (types.Message, error) {
		out, err := sdk.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String(bedrockModel), Messages: conversation, ToolConfig: weatherTool})
		if err != nil {
			return types.Message{}, err
		}
		stream := out.GetStream()
		defer func() { _ = stream.Close() }()
		var text, input string
		var use *types.ToolUseBlock
		counted := false
		for event := range stream.Events() {
			switch e := event.(type) {
			case *types.ConverseStreamOutputMemberContentBlockStart:
				start := e.Value.Start.(*types.ContentBlockStartMemberToolUse).Value
				use = &types.ToolUseBlock{ToolUseId: start.ToolUseId, Name: start.Name}
			case *types.ConverseStreamOutputMemberContentBlockDelta:
				switch delta := e.Value.Delta.(type) {
				case *types.ContentBlockDeltaMemberText:
					text += delta.Value
				case *types.ContentBlockDeltaMemberToolUse:
					input += aws.ToString(delta.Value.Input)
				}
			case *types.ConverseStreamOutputMemberMetadata:
				counted = e.Value.Usage != nil
			}
		}
		whole := types.Message{Role: types.ConversationRoleAssistant, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: text}}}
		if use != nil {
			var arguments map[string]any
			if err := json.Unmarshal([]byte(input), &arguments); err != nil {
				return whole, err
			}
			use.Input = lazy.NewLazyDocument(arguments)
			whole.Content = append(whole.Content, &types.ContentBlockMemberToolUse{Value: *use})
		}
		if err := stream.Err(); err != nil || !counted {
			return whole, fmt.Errorf("the stream ended with the usage: %v, %w", counted, err)
		}
		return whole, nil
	}
}

// play lets an agent call tools until it is stopped, or the model says no more than a text,
// which is returned.
func play(t *testing.T, next bedrockTurn) (string, error) {
	t.Helper()
	conversation := []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "What is the weather?"}}}}
	for range 20 {
		said, err := next(t.Context(), conversation)
		if err != nil {
			return "", err
		}
		if len(said.Content) == 1 {
			return said.Content[0].(*types.ContentBlockMemberText).Value, nil
		}
		result := types.ToolResultBlock{
			ToolUseId: said.Content[1].(*types.ContentBlockMemberToolUse).Value.ToolUseId,
			Content:   []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: "sunny"}},
		}
		conversation = append(conversation, said, types.Message{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberToolResult{Value: result}}})
	}
	return "", errors.New("nothing stopped the agent")
}

var bedrockTurns = map[string]func(*bedrockruntime.Client) bedrockTurn{"whole": converse, "streamed": converseStream}

// before is the system in front of an upstream. With an access key it signs.
func (b *bedrock) before(t *testing.T, key *aws.Credentials, edits ...func(*system.Config)) *system.System {
	t.Helper()
	return start(t, "http://127.0.0.1:1", append(edits, func(cfg *system.Config) {
		cfg.Gateway.Upstream["bedrock"] = b.URL
		if key != nil {
			cfg.Gateway.UpstreamKey = map[string]string{"bedrock": secret(t, strings.Join([]string{key.AccessKeyID, key.SecretAccessKey, key.SessionToken}, ":"))}
		}
	})...)
}

// hinted counts the bodies with a hint, which become the only ones with instructions.
func (b *bedrock) hinted() (n int) {
	_, bodies := b.seen()
	for _, body := range bodies {
		if strings.Contains(body, `"system":`) {
			n++
		}
	}
	return n
}

func TestBedrockAgentsAreHintedAndStopped(t *testing.T) {
	t.Parallel()
	for name, next := range bedrockTurns {
		for signer, key := range map[string]*aws.Credentials{"the gateway": &gatewayAccess, "the client": nil} {
			t.Run(name+", signed by "+signer, func(t *testing.T) {
				t.Parallel()
				upstream, wire := serveBedrock(t), &counted{}
				url := upstream.before(t, key, rejectAuto).URL()
				_, err := play(t, next(newBedrockSDK(url, &http.Client{Transport: wire})))
				var refused smithy.APIError
				if !errors.As(err, &refused) || refused.ErrorCode() != "ValidationException" || !strings.Contains(refused.ErrorMessage(), "recursive_loop_detected") {
					t.Fatalf("stopped by %v", err)
				}
				_, bodies := upstream.seen()
				if sent, seen := int(wire.sent.Load()), len(bodies); sent != seen+1 || seen < 5 {
					t.Errorf("%d requests sent and %d seen by the upstream; want one more, which is not tried again", sent, seen)
				}
				if key == nil {
					upstream.checkSignatures(t, clientAccess, strings.TrimPrefix(url, "http://"))
				} else {
					upstream.checkSignatures(t, gatewayAccess, "")
				}
				if n := upstream.hinted(); (n > 0) != (key != nil) {
					t.Errorf("%d requests with a hint", n)
				}
			})
		}
	}
}

func TestBedrockAgentsReadAnAnswerInTheModelsPlace(t *testing.T) {
	t.Parallel()
	for name, next := range bedrockTurns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serveBedrock(t).before(t, &gatewayAccess, func(cfg *system.Config) { cfg.Gateway.Reject = "synthetic" }).URL()
			if text, err := play(t, next(newBedrockSDK(url, &http.Client{}))); err != nil || !strings.Contains(text, "recursive_loop_detected") {
				t.Errorf("ends with %q, %v", text, err)
			}
		})
	}
}

// Messages of Anthropic's come through byte for byte, and an answer in the model's place
// has their form.
func TestBedrockInvokesAnthropicsModels(t *testing.T) {
	t.Parallel()
	upstream := serveBedrock(t)
	sdk := newBedrockSDK(upstream.before(t, &gatewayAccess, func(cfg *system.Config) { cfg.Gateway.Reject = "synthetic" }).URL(), &http.Client{})
	ask := []byte(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"tools":[{"name":"weather","input_schema":{}}],"messages":[{"role":"user","content":"hi"}]}`)
	var last []string
	for range 6 {
		out, err := sdk.InvokeModelWithResponseStream(t.Context(), &bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: aws.String(bedrockModel), Body: ask})
		if err != nil {
			t.Fatal(err)
		}
		last = nil
		for event := range out.GetStream().Events() {
			last = append(last, string(event.(*types.ResponseStreamMemberChunk).Value.Bytes))
		}
		if err := out.GetStream().Err(); err != nil {
			t.Fatal(err)
		}
		if _, bodies := upstream.seen(); len(bodies) < 3 && last[len(last)-1] != `{"type":"message_stop"}` {
			t.Errorf("answer %d is %s", len(bodies), last)
		}
	}
	_, bodies := upstream.seen()
	if len(bodies) != 5 || len(last) != 6 || !strings.Contains(last[2], "recursive_loop_detected") {
		t.Errorf("%d requests seen, and the last answer is %s", len(bodies), last)
	}
	if !bytes.Equal([]byte(bodies[0]), ask) {
		t.Errorf("sent as %s", bodies[0])
	}
	upstream.checkSignatures(t, gatewayAccess, "")
}
