package excerpt_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/unloop/unloop/gateway/internal/text/excerpt"
	"github.com/unloop/unloop/schemas/event"
)

func TestExcerptIsTheEndOfBothHalves(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 400)
	for name, c := range map[string]struct{ said, answered, want string }{
		"nothing":         {"", " \n", ""},
		"a prompt":        {"", "Read main.go\n\tand  explain\x00 it.", "Read main.go and explain it."},
		"a call":          {`read_file {"path":"main.go"}`, "package main", `read_file {"path":"main.go"} ⇒ package main`},
		"an answer alone": {"", "done", "done"},
		"a long prompt":   {"", long + "the question", "…" + (long + "the question")[len(long)+12-199:]},
		"long and short":  {long + "last words", "ok", "…" + (long + "last words")[len(long)+10-194:] + " ⇒ ok"},
		"short and long":  {"ls", long + "end", "ls ⇒ …" + (long + "end")[len(long)+3-194:]},
		"no UTF-8":        {"", "a\xffb", "a\uFFFDb"},
	} {
		if got := excerpt.Of(c.said, c.answered); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExcerptHasWholeRunesAndItsLimit(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("漢", 3000), strings.Repeat("x", 5000), strings.Repeat("é ", 2000), strings.Repeat("👩‍🔧", 900)} {
		for _, e := range []string{excerpt.Of("", text), excerpt.Of(text, text), excerpt.Of(text, "short")} {
			if n := utf8.RuneCountInString(e); n > event.MaxExcerpt || !utf8.ValidString(e) {
				t.Errorf("%d runes: %q", n, e)
			}
		}
	}
	if got := excerpt.Of("", strings.Repeat("漢", 3000)); utf8.RuneCountInString(got) != event.MaxExcerpt {
		t.Errorf("a text without spaces is left out: %q", got)
	}
}

// secret is what no excerpt may show.
const secret = "Zx9hunter2Qq"

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"use sk-" + secret + " please",
		"use sk-proj-abc_" + secret + ".",
		"Authorization: Bearer " + secret,
		"authorization: Basic " + secret + "==",
		"curl -H 'Authorization: " + secret + "' x",
		"the bearer " + secret + " works",
		`{"password":"` + secret + `","user":"ann"}`,
		`{"password": "two words ` + secret + `"}`,
		`bash {"cmd":"export API_KEY=\"` + secret + `\""}`,
		`bash {"cmd":"mysql --password ` + secret + ` -u root"}`,
		"AWS_SECRET_ACCESS_KEY=" + secret,
		"the password is " + secret,
		"?api_key=" + secret + "&page=2",
		"postgres://ann:" + secret + "@db/x",
		"ghp_" + secret, "github_pat_" + secret, "glpat-" + secret, "xoxb-1-" + secret, "AIza" + secret,
		"hf_" + secret, "npm_" + secret, "whsec_" + secret, "sk_live_" + secret,
		"eyJhbGciOiJIUzI1NiJ9." + secret + "." + secret,
		"-----BEGIN RSA PRIVATE KEY-----\n" + secret + "\n" + secret + "\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + secret,
		"what is " + secret + secret + "?",
		"Set-Cookie: sid=" + secret,
	} {
		for _, e := range []string{excerpt.Of("", text), excerpt.Of(text, "ok"), excerpt.Of("", strings.Repeat("so ", 3000)+text)} {
			if strings.Contains(e, secret) || !strings.Contains(e, "[masked]") {
				t.Errorf("%q is shown as %q", text, e)
			}
		}
	}
}

// What cuts a text must not cut what a secret is known by. The secrets behind it
// shrink to marks, so that the excerpt reaches back to the cut.
func TestNoCutShowsTheRestOfASecret(t *testing.T) {
	t.Parallel()
	behind := strings.Repeat(" sk-"+strings.Repeat("ab", 98), 10)
	for n := range 120 {
		text := "key sk-" + strings.Repeat("c", 30) + secret + behind + strings.Repeat(" z", n/2)
		if e := excerpt.Of("", text); strings.Contains(e, secret[len(secret)-3:]) || !strings.Contains(e, "[masked]") {
			t.Fatalf("%d characters behind it: %q", n, e)
		}
	}
}

func TestUsualTextIsNotMasked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"Find out why the login page redirects twice after the password was changed.",
		`read_file {"path":"src/components/navigation/main.go","offset":100}`,
		"error: undefined: internationalization_of_everything",
		"Count the tokens of the prompt, then answer in three sentences.",
		"FAILED test_login AssertionError", "請把這份報告翻譯成英文並保留所有表格",
	} {
		if got := excerpt.Of("", text); got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("said", "answered")
	f.Add(strings.Repeat("a\xff", 30), "password=\"")
	f.Fuzz(func(t *testing.T, said, answered string) {
		if e := excerpt.Of(said, answered); !utf8.ValidString(e) || utf8.RuneCountInString(e) > event.MaxExcerpt || strings.ContainsAny(e, "\n\r\x00") {
			t.Errorf("excerpt %q", e)
		}
	})
}

func BenchmarkExcerpt(b *testing.B) {
	text := strings.Repeat(`edit {"path":"src/main.go","old":"token := next()","new":"x"} `, 200)
	for b.Loop() {
		excerpt.Of(text, text)
	}
}
