package excerpt

import (
	"slices"
	"strings"
)

// masked replaces a secret.
const masked = "[masked]"

// names are the endings of names of secrets in JSON, headers, flags, shells and query
// strings.
var names = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "credential", "credentials", "authorization", "cookie",
	"apikey", "api_key", "api-key", "accesskey", "access_key", "access-key", "accountkey", "account_key", "account-key",
	"privatekey", "private_key", "private-key", "signing_key", "signing-key", "encryption_key", "encryption-key",
}

// prefixes are the beginnings of keys with a known form: of OpenAI and Anthropic, Stripe,
// GitHub, GitLab, Slack, AWS, Google, Hugging Face, npm, Standard Webhooks, and of JSON Web
// Tokens.
var prefixes = []string{
	"sk-", "sk_", "pk_", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-", "AKIA", "ASIA", "AIza", "ya29.",
	"hf_", "npm_", "whsec_", "eyJ",
}

const (
	// minKey is the minimum length, in bytes, of a key with a known prefix and of a bearer
	// token.
	minKey = 10
	// minRandom is the minimum length, in bytes, of a word that is masked because it looks
	// random.
	minRandom = 20
)

// Mask replaces everything that looks like a secret. It masks a harmless word rather than
// miss a secret.
func Mask(text string) string {
	var out strings.Builder
	text = maskPrivateKeys(text)
	for i := 0; i < len(text); {
		word := wordAt(text[i:])
		if word == "" {
			out.WriteByte(text[i])
			i++
			continue
		}
		inURL := i > 0 && text[i-1] == ':' && strings.HasPrefix(text[i+len(word):], "@") // user:password@host
		i += len(word)
		if inURL || isSecret(word) {
			out.WriteString(masked)
			continue
		}
		out.WriteString(word)
		if from, to := secretAfter(word, text[i:]); to > from {
			out.WriteString(text[i : i+from])
			out.WriteString(masked)
			i += to
		}
	}
	return out.String()
}

// maskPrivateKeys replaces private keys in PEM, also if their end is missing.
func maskPrivateKeys(text string) string {
	const line, end = "PRIVATE KEY-----", "-----END "
	before, key, found := strings.Cut(text, line)
	if !found {
		return text
	}
	_, rest, _ := strings.Cut(key, end)
	_, rest, _ = strings.Cut(rest, line)
	return before + line + masked + maskPrivateKeys(rest)
}

// wordAt returns the word at the beginning of a text, or "".
func wordAt(text string) string {
	n := 0
	for n < len(text) && isToken(text[n]) {
		n++
	}
	return text[:n]
}

// isSecret reports whether a word looks like a secret.
func isSecret(word string) bool {
	if len(word) >= minKey && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) }) {
		return true
	}
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r == '.' || r == '/' }) {
		if len(part) >= minRandom && looksRandom(part) {
			return true
		}
	}
	return false
}

// looksRandom reports whether a long word is probably a key or a hash: it has only
// hexadecimal digits, or digits, capitals and small letters.
func looksRandom(word string) bool {
	if !strings.ContainsAny(word, "0123456789") {
		return false
	}
	return strings.Trim(word, "0123456789abcdefABCDEF-") == "" ||
		strings.ContainsAny(word, "abcdefghijklmnopqrstuvwxyz") && strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}

// secretAfter returns the span of the secret in the text after the word that names it.
func secretAfter(word, text string) (from, to int) {
	word = strings.ToLower(word)
	if word == "bearer" {
		rest := strings.TrimLeft(text, " ")
		token := wordAt(rest)
		from = len(text) - len(rest)
		if from == 0 || len(token) < minKey {
			return 0, 0
		}
		return from, from + len(token)
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(word, name) }) {
		return 0, 0
	}
	if from = assigned(text, strings.HasPrefix(word, "-")); from == 0 {
		return 0, 0
	}
	return from, from + valueAt(text[from:], strings.HasSuffix(word, "authorization") || strings.HasSuffix(word, "cookie"))
}

// assigned returns the index of the value in the text after a name; 0 if there is none. A
// flag's value needs no colon or equals sign.
func assigned(text string, flag bool) int {
	rest := strings.TrimLeft(strings.TrimLeft(text, `\"'`), " \t")
	switch {
	case strings.HasPrefix(rest, ":"), strings.HasPrefix(rest, "="):
		rest = strings.TrimLeft(rest, ":= \t")
	case strings.HasPrefix(rest, "is "):
		rest = rest[len("is "):]
	case !flag || len(rest) == len(text):
		return 0
	}
	return len(text) - len(rest)
}

// valueAt returns the length of the value at the beginning of a text: a quoted string, a
// word, or the whole line for a header.
func valueAt(text string, header bool) int {
	open := strings.TrimLeft(text, `\`)
	at := len(text) - len(open)
	if open != "" && (open[0] == '"' || open[0] == '\'') {
		if n := strings.IndexByte(open[1:], open[0]); n >= 0 {
			return at + n + 2
		}
		return len(text)
	}
	ends := " \t\r\n\"',;&)}]"
	if header {
		ends = "\r\n\"'"
	}
	if n := strings.IndexAny(text, ends); n >= 0 {
		return n
	}
	return len(text)
}

// SecretHeader reports whether a header may hold a secret, by its name.
func SecretHeader(name string) bool {
	name = strings.ToLower(name)
	if name == "x-token-estimate" { // a number of tokens
		return false
	}
	return slices.ContainsFunc([]string{"authorization", "key", "token", "secret", "cookie", "signature"}, func(part string) bool {
		return strings.Contains(name, part)
	})
}
