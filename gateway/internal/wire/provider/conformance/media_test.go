package conformance

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// media are the ways to send pictures, documents and audio in a format. MEDIA stands for
// bytes in base64, an id or a URL.
type media struct {
	// first and later are bodies with PART in the first message of a human, and in one
	// after an answer; shown are bodies with PART in the result of a call, or behind it.
	first, later string
	shown        []string
	// parts are those that a human may send, and results those of tools alone.
	parts, results []string
}

var mediaOf = map[string]media{
	"openai-chat": {
		first: `{"messages":[{"role":"user","content":[{"type":"text","text":"see"},PART]}]}`,
		later: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so"},{"role":"user","content":[PART,{"type":"text","text":"see"}]}]}`,
		shown: []string{
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"shot","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"ok"},PART]}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"shot","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"ok"},{"role":"user","content":[PART]}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"shot","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"ok"},{"role":"user","content":[{"type":"text","text":"see"},PART]}]}`,
		},
		parts: []string{
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,MEDIA"}}`, `{"type":"image_url","image_url":{"url":"https://x.org/MEDIA.png","detail":"low"}}`,
			`{"type":"file","file":{"file_id":"file-MEDIA"}}`, `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,MEDIA"}}`,
			`{"type":"input_audio","input_audio":{"data":"MEDIA","format":"wav"}}`,
		},
	},
	"openai-responses": {
		first: `{"input":[{"role":"user","content":[{"type":"input_text","text":"see"},PART]}]}`,
		later: `{"input":[{"role":"user","content":"hi"},{"role":"assistant","content":"so"},{"role":"user","content":[PART,{"type":"input_text","text":"see"}]}]}`,
		shown: []string{
			`{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"1","name":"shot","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"ok"},PART]}]}`,
			`{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"1","name":"shot","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"ok"},{"role":"user","content":[PART]}]}`,
		},
		parts: []string{
			`{"type":"input_image","image_url":"data:image/png;base64,MEDIA"}`, `{"type":"input_image","image_url":"https://x.org/MEDIA.png"}`, `{"type":"input_image","file_id":"file-MEDIA"}`,
			`{"type":"input_file","file_id":"file-MEDIA"}`, `{"type":"input_file","file_url":"https://x.org/MEDIA.pdf"}`, `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,MEDIA"}`,
			`{"type":"input_audio","input_audio":{"data":"MEDIA","format":"mp3"}}`,
		},
		results: []string{`{"input":[{"role":"user","content":"hi"},{"type":"computer_call","call_id":"1","action":{"type":"screenshot"}},{"type":"computer_call_output","call_id":"1","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,MEDIA"}}]}`},
	},
	"anthropic-messages": {
		first: `{"messages":[{"role":"user","content":[PART,{"type":"text","text":"see"}]}]}`,
		later: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so"},{"role":"user","content":[PART,{"type":"text","text":"see"}]}]}`,
		shown: []string{
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"shot","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"ok"},PART]}]}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"shot","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"ok"},PART]}]}`,
		},
		parts: []string{
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"MEDIA"}}`, `{"type":"image","source":{"type":"url","url":"https://x.org/MEDIA.png"}}`,
			`{"type":"image","source":{"type":"file","file_id":"file_MEDIA"}}`, `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"MEDIA"}}`,
			`{"type":"document","source":{"type":"url","url":"https://x.org/MEDIA.pdf"}}`, `{"type":"document","title":"a","source":{"type":"file","file_id":"file_MEDIA"}}`,
			`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"MEDIA"}]}`,
		},
	},
	"bedrock-converse": {
		first: `{"messages":[{"role":"user","content":[{"text":"see"},PART]}]}`,
		later: `{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"text":"so"}]},{"role":"user","content":[PART,{"text":"see"}]}]}`,
		shown: []string{
			`{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"shot","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"ok"},PART]}}]}]}`,
			`{"messages":[{"role":"user","content":[{"text":"hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"1","name":"shot","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"1","content":[{"text":"ok"}]}},PART]}]}`,
		},
		parts: []string{
			`{"image":{"format":"png","source":{"bytes":"MEDIA"}}}`, `{"image":{"format":"png","source":{"s3Location":{"uri":"s3://b/MEDIA"}}}}`,
			`{"document":{"format":"pdf","name":"a","source":{"bytes":"MEDIA"}}}`, `{"video":{"format":"mp4","source":{"bytes":"MEDIA"}}}`,
		},
	},
	"ollama": {
		first: `{"messages":[{"role":"user","content":"see","images":[PART]}]}`,
		later: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"so"},{"role":"user","images":[PART],"content":"see"}]}`,
		shown: []string{
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"function":{"name":"shot","arguments":{}}}]},{"role":"tool","tool_name":"shot","content":"ok","images":[PART]}]}`,
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"function":{"name":"shot","arguments":{}}}]},{"role":"tool","tool_name":"shot","content":"ok"},{"role":"user","content":"","images":[PART]}]}`,
		},
		parts:   []string{`"MEDIA"`},
		results: nil,
	},
	"gemini": {
		first: `{"contents":[{"role":"user","parts":[{"text":"see"},PART]}]}`,
		later: `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"so"}]},{"role":"user","parts":[{"text":"see"},PART]}]}`,
		shown: []string{
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"shot","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":"ok"},"parts":[PART]}}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"shot","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":"ok"}}},PART]}]}`,
		},
		parts: []string{
			`{"inlineData":{"mimeType":"image/png","data":"MEDIA"}}`, `{"fileData":{"mimeType":"audio/wav","fileUri":"https://x.org/MEDIA.wav"}}`,
			`{"inline_data":{"mime_type":"application/pdf","data":"MEDIA"}}`, `{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/MEDIA"}}`,
		},
	},
}

// seen is what detectors get of a body.
type seen struct {
	opening, beginning, text, strict fingerprint.Digest
	said, answered                   string
	exchange                         uint64
	media                            fingerprint.Digest
	newest                           fingerprint.Digest // result or, without one, human message
}

func see(t *testing.T, p provider.Provider, body string) (s seen) {
	t.Helper()
	body = `{"anthropic_version":"v",` + body[1:] // Bedrock reads Messages that have one
	prompt, err := p.Parse([]byte(body), provider.Options{Tail: 1, Items: 10, Exchanges: 3})
	if err != nil || prompt == nil {
		t.Fatalf("parse %s: %v, %v", body, prompt, err)
	}
	tr := prompt.Transcript
	s.opening, s.beginning, s.strict, s.text = prompt.Opening, tr.Beginning(), prompt.Tail[0].Strict, prompt.Tail[0].Text
	s.said, s.answered = tr.Exchange(100)
	s.exchange, _, _ = tr.Digests()
	_, s.media = tr.Human()
	items, _ := tr.History(provider.Rules{})
	rounds := 0
	for _, it := range items {
		if len(it.Calls) > 0 {
			s.newest, rounds = it.Calls[0].Result, rounds+1
		} else if rounds == 0 {
			s.newest = it.Human
		}
	}
	return s
}

func TestMediaBelongToWhatIsCompared(t *testing.T) {
	t.Parallel()
	const signed = "a.png?X-Amz-Date=1&X-Amz-Signature=1#"
	for _, p := range all {
		m, known := mediaOf[strings.Replace(p.Name(), "bedrock-anthropic", "anthropic-messages", 1)]
		if !known {
			t.Fatalf("%s has no media", p.Name())
		}
		bodies := append([]string(nil), m.results...)
		for _, part := range m.parts {
			for _, body := range append([]string{m.first, m.later}, m.shown...) {
				bodies = append(bodies, strings.ReplaceAll(body, "PART", part))
			}
		}
		for _, body := range bodies {
			with := func(media string) seen { return see(t, p, strings.ReplaceAll(body, "MEDIA", media)) }
			a, b := with("AAAA"), with("BBBB")
			if a != with("AAAA") {
				t.Errorf("%s: the same bytes are not the same: %s", p.Name(), body)
			}
			if a.strict == b.strict && a.newest == b.newest || a.answered == b.answered || a.exchange == b.exchange || a.said != b.said {
				t.Errorf("%s: other media make no difference: %s\n%+v\n%+v", p.Name(), body, a, b)
			}
			first := !strings.Contains(body, `"hi"`)
			if (a.opening != b.opening) != first || (a.beginning != b.beginning) != first || a.newest == b.newest {
				t.Errorf("%s: a conversation is taken for another: %s\n%+v\n%+v", p.Name(), body, a, b)
			}
			if strings.Contains(body, "https://x.org/MEDIA") && with(signed+"x") != with(strings.ReplaceAll(signed, "=1", "=2")+"x") {
				t.Errorf("%s: the signature of a URL makes a difference: %s", p.Name(), body)
			}
		}
	}
}

func TestMediaInAnswersToAgentsThatActInTextAreResults(t *testing.T) {
	t.Parallel()
	for _, p := range all {
		if p.Name() != "openai-chat" {
			continue
		}
		result := func(media string) fingerprint.Digest {
			const head = `{"messages":[{"role":"system","content":"Write Action: and Action Input: lines."},{"role":"user","content":"go"},{"role":"assistant","content":"Action: screen_shot\nAction Input: {}"},`
			return see(t, p, head+`{"role":"user","content":[{"type":"text","text":"Observation: done"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+media+`"}}]}]}`).newest
		}
		first, again, other := result("AAAA"), result("AAAA"), result("BBBB")
		if first == other || first != again {
			t.Error("another screenshot is the same result, or the same one is another")
		}
	}
}
