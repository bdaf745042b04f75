package service

import (
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestOneVariableHoldsSeveralPairs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Pairs{
		"":                                      {},
		" \n":                                   {},
		"openai=https://a":                      {"openai": "https://a"},
		"openai=https://a,gemini=https://b":     {"openai": "https://a", "gemini": "https://b"},
		"openai=https://a;gemini=https://b;":    {"openai": "https://a", "gemini": "https://b"},
		"\n openai=https://a\n own=http://b/v1": {"openai": "https://a", "own": "http://b/v1"},
		"a=file:/keys/my key, b=env:B":          {"a": "file:/keys/my key", "b": "env:B"},
		"a=https://h/x;y=2/v1":                  {"a": "https://h/x;y=2/v1"},
		"a=h:8080":                              {"a": "h:8080"},
		"a=":                                    {"a": ""},
		"a=1.2.3.4,b=https://b":                 {"a": "1.2.3.4", "b": "https://b"},
	} {
		got, err := splitPairs(text)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, fault := range map[string]string{
		"https://secret@a":          "NAME=VALUE",
		"a=https://a b=env:B a=x:y": "a is there twice",
		"secret, a=https://a":       "NAME=VALUE",
	} {
		if _, err := splitPairs(text); err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}

func TestPairsComeFromFlagsAndTheVariable(t *testing.T) {
	for _, c := range []struct {
		env  string
		args []string
		want Pairs
	}{
		{"", nil, nil},
		{"a=http://a b=http://b", nil, Pairs{"a": "http://a", "b": "http://b"}},
		{"a=http://a", []string{"--upstream", "c=http://c", "--upstream=d=http://d"}, Pairs{"c": "http://c", "d": "http://d"}},
	} {
		t.Setenv("PAIRS_TEST_UPSTREAM", c.env)
		var flags struct{ Upstream Pairs }
		parser, err := kong.New(&flags, kong.DefaultEnvars("PAIRS_TEST"), kong.Writers(io.Discard, io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(c.args); err != nil || !maps.Equal(flags.Upstream, c.want) {
			t.Errorf("%q %q: %v, %v; want %v", c.env, c.args, flags.Upstream, err, c.want)
		}
	}
}
