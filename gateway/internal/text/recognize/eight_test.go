package recognize

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// printable are texts of ASCII characters that can be seen, white space and digits.
var printable = rapid.StringMatching(`([ -~]|[ A-Za-z0-9]{1,9}|\n| ){0,40}`)

func TestTextIsFoldedAsItsFieldsInLowerCase(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := printable.Draw(t, "text")
		want := strings.Join(strings.Fields(strings.ToLower(text)), " ")
		if got := string(AppendText(nil, []byte(text))); got != want {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

func TestLowerCaseIsThatOfTheStandardLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.OneOf(printable, rapid.String()).Draw(t, "text"))
		if got, want := appendLower([]byte("A"), text), append([]byte("A"), bytes.ToLower(text)...); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

func TestEachNumberIsMasked(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`\d+`)
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(printable.Draw(t, "text"))
		want := number.ReplaceAll(text, []byte("0"))
		if got := WithoutNumbers(bytes.Clone(text)); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}

// The same message is read in several ways: a hasher that has read another one before gives the
// digests of a new one.
func TestAHasherTellsMessagesApart(t *testing.T) {
	t.Parallel()
	var h Hasher
	for _, text := range []string{"One 1", "", "One 1", "one 2", " one  2", "two"} {
		var fresh Hasher
		if h.Text([]byte(text)) != fresh.Text([]byte(text)) || h.Said([]byte(text)) != Said([]byte(text)) || h.Text([]byte(text)) != fresh.Text([]byte(text)) {
			t.Errorf("%q has the digest of another", text)
		}
	}
}

// Words that are taken for plain ones name no volatile part and are none.
func TestPlainWordsAreNotVolatile(t *testing.T) {
	t.Parallel()
	pieces := strings.Split("a|pid|PIDs|line|bash|sh|container|ref|uid|elapsed_ms|took|Mon|March|tmpabcdefgh|h0123456789abcdef|abc123|.output|"+
		"tool_AbCdEfGhIjKlMnOpQrStUv1|req_011CSabcd12|resp_abcdefgh1|msg_01AbCdEfGh|chatcmpl|request_id|web-5d4f8c7b9|x2x4z|AbCd12|0123456789ab|"+
		"/tmp/x.|/tmp/|/tool-results/|::|: |:|\": | |=|-|12|e12| 2 Jan 2026 14:30:05|abcdefab|-cdef-abcd-efab-cdefabcdefab", "|")
	for i := range len(pieces) * len(pieces) * len(pieces) {
		a, b, c := pieces[i%len(pieces)], pieces[i/len(pieces)%len(pieces)], pieces[i/len(pieces)/len(pieces)]
		text := []byte(" " + a + b + c + " and so on")
		for from := 0; from < len(text); from++ {
			to := skipWord(text, from)
			if to == from || class[text[from]] != letter {
				continue
			}
			if start, end := (scanner{kinds: AllKinds}).word(text, from, to); end > start && isPlain(text, from, to) {
				t.Fatalf("%q: %q is volatile", text, text[start:end])
			}
			from = to
		}
	}
}
