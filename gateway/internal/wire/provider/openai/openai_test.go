package openai_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/jsonwalk"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/provider/openai"
	"github.com/unloop/unloop/gateway/internal/wire/provider/tree"
	"github.com/unloop/unloop/gateway/internal/wire/repair"
	"github.com/unloop/unloop/gateway/internal/wire/transcript"
	"github.com/unloop/unloop/gateway/internal/wire/transcript/message"
)

func TestContentIsReadAndLocated(t *testing.T) {
	t.Parallel()
	const media = "attachment_" // what is no text has a word of its own
	for body, want := range map[string]struct {
		text   string
		parts  int
		blocks []repair.Kind
	}{
		`"hi"`:    {"hi", 1, []repair.Kind{repair.Text}},
		`null`:    {"", 0, nil},
		`{"x":1}`: {media, 1, nil},
		`[{"type":"text","text":"a"},{"type":"input_text","text":"b"}]`: {"a\nb", 2, []repair.Kind{repair.Text, repair.Content}},
		`["a",["b",{"type":"text","text":"c"}],null]`:                   {"a\nb\nc", 3, []repair.Kind{repair.Content, repair.Content, repair.Content}},
		`[{"type":"thinking","thinking":"t"},{"type":"text","text":5}]`: {media, 1, []repair.Kind{repair.Content, repair.Text}},
		`[{"type":"tool_result","tool_use_id":"x","content":"r"}]`:      {media, 1, []repair.Kind{repair.Result}},
	} {
		located := tree.Tree{Body: []byte(body)}
		r := openai.Reader{Reader: provider.Reader{Body: located.Body, T: transcript.New(transcript.Options{}), Tree: &located}}
		if err := jsonwalk.Text(r.Body, r.Content); err != nil {
			t.Fatal(err)
		}
		var kinds []repair.Kind
		for _, b := range located.Open {
			kinds = append(kinds, b.Kind)
		}
		parts := r.T.Len()
		r.T.End(message.User)
		_, text := r.T.Exchange(100)
		if strings.HasPrefix(text, media) {
			text = media
		}
		if text != want.text || parts != want.parts || len(kinds) != len(want.blocks) {
			t.Errorf("%s: %q in %d parts, blocks %v", body, text, parts, kinds)
			continue
		}
		for i, kind := range want.blocks {
			if kinds[i] != kind {
				t.Errorf("%s: blocks %v, want %v", body, kinds, want.blocks)
			}
		}
	}
}

func TestAFormatOtherThanTextIsStructured(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{`{"type":"json_schema"}`: true, `{"type":"text"}`: false, `{"type":5}`: false, `{}`: false, `"x"`: false} {
		err := jsonwalk.Text([]byte(body), func(w *jsonwalk.Walker) error {
			got, err := openai.Structured(w)
			if got != want {
				t.Errorf("%s: %v", body, got)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestUsersAreReadByTheMostSpecificName(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"user":"u","safety_identifier":"s","metadata":{"user_id":"m"}}`: "s", `{"user":"u","metadata":{"user_id":"m"}}`: "u",
		`{"metadata":{"user_id":"m","session_id":"x"},"other":1}`: "m", `{"metadata":"x"}`: "",
	} {
		var who openai.Who
		err := jsonwalk.Text([]byte(body), func(w *jsonwalk.Walker) error {
			return w.Object(func(name []byte) error { return who.Member(w, name) })
		})
		if err != nil || who.User() != want {
			t.Errorf("%s: %q, %v", body, who.User(), err)
		}
	}
}

func TestRolesAndErrorsHaveTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]message.Role{
		"assistant": message.Assistant, "system": message.System, "developer": message.System, "tool": message.Tool, "function": message.Tool, "user": message.User, "": message.User,
	} {
		if got := openai.Role([]byte(name)); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
	got := string(openai.API{}.Refusal(provider.Refusal{Status: 401, Code: "c", Message: "m"}))
	if got != `{"error":{"message":"m","type":"authentication_error","param":null,"code":"c"}}` {
		t.Error(got)
	}
}
