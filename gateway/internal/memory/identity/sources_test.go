package identity

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/formats"
)

// members are bodies in which one member names the user or the session "x".
var members = map[string]struct{ format, body string }{
	"safety_identifier":                             {"openai-chat", `{"safety_identifier":"x","user":"u"}`},
	"user":                                          {"openai-responses", `{"user":"x","metadata":{"user_id":"u"}}`},
	"metadata.user_id":                              {"anthropic-messages", `{"metadata":{"user_id":"x"}}`},
	"requestMetadata.user_id of Converse":           {"bedrock-converse", `{"requestMetadata":{"user_id":"x"}}`},
	"conversation of Responses":                     {"openai-responses", `{"conversation":"x","metadata":{"session_id":"s"}}`},
	"metadata.session_id":                           {"openai-chat", `{"metadata":{"session_id":"x"}}`},
	"requestMetadata.session_id of Converse":        {"bedrock-converse", `{"requestMetadata":{"session_id":"x"}}`},
	"the session in Claude Code's metadata.user_id": {"anthropic-messages", `{"metadata":{"user_id":"user_1_session_x"}}`},
}

// What the reference says of members is what formats read.
func TestMembersNameUsersAndSessions(t *testing.T) {
	t.Parallel()
	read := func(member string) *provider.Prompt {
		c, known := members[member]
		format, named := formats.ByName(c.format)
		if !known || !named {
			t.Fatalf("no body with %s (%s)", member, c.format)
		}
		prompt, err := format.Parse([]byte(strings.TrimSuffix(c.body, "}")+`,"messages":[{"role":"user","content":[{"text":"hi"}]}],"input":"hi"}`), provider.Options{})
		if err != nil {
			t.Fatal(member, err)
		}
		return prompt
	}
	for _, member := range userMembers {
		if p := read(member); p.User != "x" {
			t.Errorf("%s: user %q", member, p.User)
		}
	}
	for _, member := range sessionMembers {
		if p := read(member); p.Session != "x" {
			t.Errorf("%s: session %q", member, p.Session)
		}
	}
}

// What the reference says of headers is what is looked for, in that order.
func TestHeadersNameSessions(t *testing.T) {
	t.Parallel()
	var headers []string
	for _, source := range Sources() {
		if source.Part != "session" {
			continue
		}
		for _, from := range source.From[:len(sessionHeaders)+len(baggageKeys)] {
			name, value := from, from
			if key, inBaggage := strings.CutPrefix(from, baggageHeader); inBaggage {
				name, value = "Baggage", key+"="+from
			}
			headers = append(headers, name, value)
			if _, session := identified(nil, name, value); session != from {
				t.Errorf("%s names %q", from, session)
			}
		}
	}
	if _, session := identified(&provider.Prompt{Session: "body"}, headers...); session != sessionHeaders[0] {
		t.Errorf("the first of all is %q", session)
	}
}
