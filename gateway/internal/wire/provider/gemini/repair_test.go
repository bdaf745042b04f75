package gemini

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// written is a history in short: "U hi", "M f() g#1()", "U f=1 g#1=2", with # before
// the ids of calls.
func written(lines ...string) []byte {
	contents := make([]string, len(lines))
	for i, line := range lines {
		role, rest, _ := strings.Cut(line, " ")
		var parts []string
		for word := range strings.FieldsSeq(rest) {
			parts = append(parts, writtenPart(word))
		}
		contents[i] = fmt.Sprintf(`{"role":%q,"parts":[%s]}`, map[string]string{"U": "user", "M": "model", "F": "function"}[role], strings.Join(parts, ","))
	}
	return []byte(`{"contents":[` + strings.Join(contents, ",") + `],"tools":[ ]}`)
}

func writtenPart(word string) string {
	named := func(word string) string {
		name, id, _ := strings.Cut(word, "#")
		if id == "" {
			return fmt.Sprintf(`"name":%q`, name)
		}
		return fmt.Sprintf(`"id":%q,"name":%q`, id, name)
	}
	if call, ok := strings.CutSuffix(word, "()"); ok {
		return fmt.Sprintf(`{"functionCall":{%s,"args":{}},"thoughtSignature":"s"}`, named(call))
	}
	if who, answer, ok := strings.Cut(word, "="); ok {
		return fmt.Sprintf(`{"functionResponse":{%s,"response":{"output":%q}}}`, named(who), answer)
	}
	return fmt.Sprintf(`{"text":%q}`, word)
}

// lines reads what written wrote; responses that were made here are "lost".
func lines(t interface{ Fatal(args ...any) }, body []byte) []string {
	type called struct {
		Name, ID string
		Response struct{ Output, Error string }
	}
	var request struct {
		Contents []struct {
			Role  string
			Parts []struct {
				Text             string
				FunctionCall     *called
				FunctionResponse *called
			}
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		t.Fatal(err, string(body))
	}
	var out []string
	for _, c := range request.Contents {
		line := strings.ToUpper(c.Role[:1])
		for _, p := range c.Parts {
			name := func(c *called) string {
				if c.ID == "" {
					return c.Name
				}
				return c.Name + "#" + c.ID
			}
			switch {
			case p.FunctionCall != nil:
				line += " " + name(p.FunctionCall) + "()"
			case p.FunctionResponse != nil && p.FunctionResponse.Response.Error != "":
				line += " " + name(p.FunctionResponse) + "=lost"
			case p.FunctionResponse != nil:
				line += " " + name(p.FunctionResponse) + "=" + p.FunctionResponse.Response.Output
			default:
				line += " " + p.Text
			}
		}
		out = append(out, line)
	}
	return out
}

func TestGeminisHistoriesAreMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ history, want []string }{
		"sound, by names":                      {[]string{"U hi", "M f() f() g()", "U f=1 f=2 g=3", "M done"}, nil},
		"sound, by ids":                        {[]string{"U hi", "M f#1() f#2()", "F f#2=b f#1=a", "M done"}, nil},
		"ids on one side alone":                {[]string{"U hi", "M f#1()", "U f=1"}, nil},
		"text beside responses":                {[]string{"U hi", "M f()", "U look f=1 on", "M done"}, nil},
		"a greeting, and neighbours of a role": {[]string{"M hello", "U hi", "U there", "M a", "M b"}, nil},
		"a function that was called again":     {[]string{"U hi", "M f()", "U f=1", "M f()", "U f=2"}, nil},
		"a lost response":                      {[]string{"U hi", "M f() g()", "U f=1", "M done"}, []string{"U hi", "M f() g()", "U f=1 g=lost", "M done"}},
		"a lost one of two alike":              {[]string{"U hi", "M f() f()", "U f=1"}, []string{"U hi", "M f() f()", "U f=1 f=lost"}},
		"a lost one that had an id":            {[]string{"U hi", "M f#1() f#2()", "U f#2=b"}, []string{"U hi", "M f#1() f#2()", "U f#2=b f#1=lost"}},
		"none at all":                          {[]string{"U hi", "M f()", "U go on"}, []string{"U hi", "M f()", "U f=lost go on"}},
		"a call at the end":                    {[]string{"U hi", "M f()"}, []string{"U hi", "M f()", "U f=lost"}},
		"a response without a call":            {[]string{"U hi", "M a", "U f=1 on"}, []string{"U hi", "M a", "U on"}},
		"a content of such responses":          {[]string{"U f=1", "M a", "U on"}, []string{"M a", "U on"}},
		"more responses than calls":            {[]string{"U hi", "M f()", "U f=1 f=2"}, []string{"U hi", "M f()", "U f=1"}},
		"a response that comes too late":       {[]string{"U hi", "M f()", "U wait", "M ok", "U f=1"}, []string{"U hi", "M f()", "U f=1 wait", "M ok"}},
		"a content without parts":              {[]string{"U hi", "M", "U on"}, []string{"U hi", "U on"}},
	} {
		body := written(c.history...)
		got, report, err := Generate{}.Repair(body)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == nil {
			if report.Changed() || &got[0] != &body[0] {
				t.Errorf("%s: %v: %s", name, report, got)
			}
			continue
		}
		if !slices.Equal(lines(t, got), c.want) || !report.Changed() || !bytes.HasSuffix(got, []byte(`],"tools":[ ]}`)) {
			t.Errorf("%s: %v\n got %q\nwant %q", name, report, lines(t, got), c.want)
		}
	}
}

func TestPiecesOfAResponseAreLeftAlone(t *testing.T) {
	t.Parallel()
	body := []byte(`{"contents":[{"role":"model","parts":[{"function_call":{"name":"f"}}]},{"parts":[{"function_response":{"name":"f","will_continue":true}},{"function_response":{"name":"f"}}]}]}`)
	if got, report, err := (Generate{}).Repair(body); err != nil || report.Changed() || &got[0] != &body[0] {
		t.Errorf("%v, %v: %s", report, err, got)
	}
}

// Whatever a history has, once it is mended each content with calls is followed by as
// many responses of the same functions, and there is nothing left to mend.
func TestMendedHistoriesOfGeminiAreSound(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"text", "f()", "g()", "f#1()", "g#2()", "f=1", "g=2", "f#1=3", "g#2=4"})
	rapid.Check(t, func(t *rapid.T) {
		history := []string{"U hi"}
		for range rapid.IntRange(0, 8).Draw(t, "contents") {
			line := rapid.SampledFrom([]string{"U", "M"}).Draw(t, "role")
			for _, w := range rapid.SliceOfN(word, 0, 4).Draw(t, "parts") {
				if line[0] == 'M' || !strings.HasSuffix(w, "()") {
					line += " " + w
				}
			}
			history = append(history, line)
		}
		body := written(history...)
		once, _, err := Generate{}.Repair(body)
		if err != nil {
			t.Fatal(err)
		}
		twice, again, err := Generate{}.Repair(once)
		if err != nil || again.Changed() || !bytes.Equal(once, twice) {
			t.Fatalf("a second repair: %v, %v\n%q\n%q\n%q", again, err, history, lines(t, once), lines(t, twice))
		}
		wantSound(t, history, lines(t, once))
	})
}

func wantSound(t *rapid.T, history, mended []string) {
	open := map[string]int{}
	balanced := func() {
		for name, n := range open {
			if n != 0 {
				t.Fatalf("%d calls of %s are not answered:\n%q\n%q", n, name, history, mended)
			}
		}
	}
	role := ""
	for _, line := range mended {
		if line[:1] == "M" && role != "M" {
			balanced()
		}
		role = line[:1]
		for w := range strings.FieldsSeq(line[1:]) {
			name, _, _ := strings.Cut(strings.TrimSuffix(w, "()"), "#")
			name, _, _ = strings.Cut(name, "=")
			switch {
			case strings.HasSuffix(w, "()"):
				open[name]++
			case strings.Contains(w, "="):
				open[name]--
			}
		}
	}
	balanced()
}
