package recognize

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/unloop/unloop/schemas/fingerprint"
	"github.com/unloop/unloop/schemas/toolname"
)

const domainLoose = "unloop/loose/1"

// looseScanner finds what may differ between two equal calls. It may also be what the call
// is about.
var looseScanner = scanner{kinds: Timestamps | UUIDs | RequestIDs | Runtime}

// minLoose is the minimum length, in bytes, of a failed call without its numbers and white
// space: the arguments of a shorter one are little else.
const minLoose = 40

// Loose returns a digest that a call shares with calls that differ from it only in times,
// UUIDs, and ids of requests and processes. For a failed call, numbers and white space don't
// matter either. The digest is zero for a call without such values, which is compared by its
// key alone.
func Loose(tool string, arguments []byte, failed bool) fingerprint.Digest {
	text, found := loosen(arguments)
	if failed {
		text = WithoutNumbers(withoutSpace(text))
		if len(text) < minLoose {
			return fingerprint.Digest{}
		}
	} else if !found {
		return fingerprint.Digest{}
	}
	return looseSum(tool, text)
}

// LooseNumbers is Loose for any call, also without numbers and white space. It is meant for
// calls whose result says much: a screenshot, or the report of another agent.
func LooseNumbers(tool string, arguments []byte) fingerprint.Digest {
	text, _ := loosen(arguments)
	return looseSum(tool, WithoutNumbers(withoutSpace(text)))
}

// loosen returns arguments without the values that may differ between equal calls, and
// reports whether there are any.
func loosen(arguments []byte) (text []byte, found bool) {
	looseScanner.split(arguments, func(part []byte, volatile bool) {
		if volatile {
			part, found = placeholder, true
		}
		text = append(text, part...)
	})
	text, asked := withoutBusters(text)
	text, named := withoutAliases(text)
	return text, found || asked || named
}

// buster matches a URL parameter that defeats caches, counts attempts, or says where a
// visitor came from. Other parameters count: a batch over ?id=1, ?id=2 is no loop.
var buster = regexp.MustCompile(`(?i)((?:[?&]|\\u0026)(?:_|cb|cache_?bust(?:er)?|no_?cache|rand(?:om)?|rnd|nonce|try|retry|utm_[a-z]+|fbclid|gclid|msclkid)=)[^&#"'\\\s]+`)

// anchor matches a URL with a fragment.
var anchor = regexp.MustCompile(`(://[^\s"'#\\]+#)[^\s"'\\]+`)

// withoutBusters drops the values of URL parameters on which no response depends, and
// fragments, and reports whether there are any.
func withoutBusters(text []byte) ([]byte, bool) {
	if !bytes.Contains(text, []byte("://")) {
		return text, false
	}
	asks := bytes.ContainsAny(text, "?&") || bytes.Contains(text, []byte(`\u0026`))
	if (!asks || !buster.Match(text)) && (bytes.IndexByte(text, '#') < 0 || !anchor.Match(text)) {
		return text, false
	}
	return anchor.ReplaceAll(buster.ReplaceAll(text, []byte("$1\x00")), []byte("$1\x00")), true
}

var (
	// alias matches the alias of a table in a query if it ends with a number; there is none
	// in "from here file1.txt".
	alias = regexp.MustCompile(`(?i)\b(?:from|join)\s+[\w.]+\s+(?:as\s+)?([a-z_]+\d+)(?:[^\w.]|$)`)
	// numbered matches a word that ends with a number.
	numbered = regexp.MustCompile(`\b[A-Za-z_]+\d+\b\.?`)
)

// withoutAliases drops the numbers from table aliases of an SQL query that it uses for
// columns, and reports whether there are any. An alias does not change the rows.
func withoutAliases(text []byte) ([]byte, bool) {
	if !bytes.Contains(text, []byte("FROM")) && !bytes.Contains(text, []byte("from")) {
		return text, false
	}
	text = bytes.ReplaceAll(text, []byte(`\n`), []byte(" "))
	if !hasNumbered(text) {
		return text, false
	}
	aliases := map[string]bool{}
	for _, m := range alias.FindAllSubmatch(text, -1) {
		aliases[string(m[1])] = false
	}
	if len(aliases) == 0 {
		return text, false
	}
	for _, word := range numbered.FindAll(text, -1) {
		if name, refers := bytes.CutSuffix(word, []byte(".")); refers {
			if _, named := aliases[string(name)]; named {
				aliases[string(name)] = true
			}
		}
	}
	found := false
	text = numbered.ReplaceAllFunc(text, func(word []byte) []byte {
		if name := bytes.TrimSuffix(word, []byte(".")); aliases[string(name)] {
			found = true
			return bytes.TrimRight(name, "0123456789")
		}
		return word
	})
	return text, found
}

// hasNumbered reports whether text may have a word that ends with a number. It saves most
// text from the regular expressions.
func hasNumbered(text []byte) bool {
	before := byte(other)
	for _, c := range text {
		of := class[c]
		if of == digit && before == letter {
			return true
		}
		if before = of; c >= utf8.RuneSelf { // regular expressions may see a letter
			before = letter
		}
	}
	return false
}

func looseSum(tool string, text []byte) fingerprint.Digest {
	b := fingerprint.AppendField(fingerprint.AppendField(nil, []byte(domainLoose)), []byte(tool))
	return fingerprint.Sum(fingerprint.AppendField(b, text))
}

// withoutSpace drops white space from JSON, also escaped white space in strings, in place.
func withoutSpace(text []byte) []byte {
	out := text[:0]
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		case c == '\\' && i+1 < len(text) && strings.IndexByte("ntr", text[i+1]) >= 0:
			i++
		default:
			out = append(out, c)
		}
	}
	return out
}

// emptyWords are results that say that there is nothing, in lower case.
var emptyWords = []string{
	"", "[]", "{}", "()", "null", "none", "nil", "no output", "(no output)", "no content", "(no content)", "(empty)", "no result", "no results", "no results found",
	"no match", "no matches", "no matches found", "no files found", "no data", "nothing found", "0 results", "0 matches", "empty", "[][]",
}

// emptyObject matches an object with nothing but empty members: {"results":[],"total":0}.
var emptyObject = regexp.MustCompile(`^\{("[A-Za-z_]+":(\[\]|\{\}|0|null|""),?)+\}$`)

// maxEmpty is the maximum length of a result that says that there is nothing.
const maxEmpty = 200

// IsEmpty reports whether a result says that there is nothing.
func IsEmpty(text []byte) bool {
	if text = bytes.TrimSpace(text); len(text) > maxEmpty {
		return false
	}
	lower := string(bytes.TrimRight(appendLower(nil, text), "."))
	return slices.Contains(emptyWords, lower) || emptyObject.Match(withoutSpace(bytes.Clone(text)))
}

// readers are shell commands that look for something. Others may succeed without output.
var readers = []string{
	"grep", "egrep", "fgrep", "rg", "ag", "ack", "find", "fd", "ls", "cat", "head", "tail", "awk", "jq", "locate", "which", "whereis", "sqlite3", "psql",
}

// doers are in the names of tools that change something, and may succeed without output.
var doers = []string{
	"add", "remove", "insert", "move", "save", "apply", "run", "exec", "upload", "commit", "click", "close", "cancel", "book", "notify", "log", "mark", "submit",
	"start", "stop", "kill", "open", "type", "press", "wait", "sleep", "replace", "patch", "rename", "copy", "assign", "register", "store", "append", "todo",
	"think", "thought", "thinking", "reflect", "reason", "plan", "note", "say", "speak", "reply", "respond", "answer", "message", "report", "transfer", "finish",
}

// Seeks reports whether a call looks for something, so that an empty result means that it
// was not found.
func Seeks(tool string, arguments []byte) bool {
	if !isShell(tool) {
		return !toolname.HasWord(tool, changingWords) && !toolname.HasWord(tool, doers)
	}
	a, ok := readArguments(arguments)
	return ok && seeks(a.command)
}

func seeks(command []byte) bool {
	command = bytes.TrimSpace(command)
	if bytes.HasPrefix(command, []byte("cd ")) { // cd folder && grep …
		if i := bytes.Index(command, []byte("&&")); i >= 0 {
			command = bytes.TrimSpace(command[i+2:])
		}
	}
	word, _, _ := bytes.Cut(command, []byte(" "))
	return slices.Contains(readers, string(word)) && bytes.IndexByte(command, '>') < 0
}

var (
	// shellNames are the arguments that hold a command for a shell.
	shellNames = []string{"command", "cmd", "script", "commandLine", "command_line"}
	// commandNames are the arguments that hold a command.
	commandNames = append(slices.Clone(shellNames), "query", "sql")
	// besides are arguments that say why or for how long a command runs, and don't change
	// what it does.
	besides = []string{
		"description", "explanation", "justification", "rationale", "reason", "reasoning", "thought", "timeout", "timeout_ms", "timeoutMs", "timeout_seconds",
		"yield_time_ms", "max_output_tokens",
	}
)

// withCommand returns arguments with commands normalized by [AppendCommand] and without
// what is beside a shell's command. It returns arguments unchanged that are no object.
func withCommand(arguments []byte) []byte {
	if arguments[0] != '{' {
		return arguments
	}
	described := hasName(arguments, shellNames) && hasName(arguments, besides)
	if !described && !spaced(arguments) {
		return arguments
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(arguments))
	if _, err := dec.ReadToken(); err != nil {
		return arguments
	}
	out := []byte{'{'}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return arguments
		}
		if described && slices.Contains(besides, string(bytes.Trim(name, `"`))) {
			if dec.SkipValue() != nil {
				return arguments
			}
			continue
		}
		out = append(append(out, name...), ':')
		if out, err = appendArgument(out, dec, bytes.Trim(name, `"`)); err != nil {
			return arguments
		}
		out = append(out, ',')
	}
	if _, err := dec.ReadToken(); err != nil || len(out) == 1 {
		return arguments
	}
	out[len(out)-1] = '}'
	return out
}

func appendArgument(dst []byte, dec *jsontext.Decoder, name []byte) ([]byte, error) {
	if dec.PeekKind() != '"' || !slices.Contains(commandNames, string(name)) {
		value, err := dec.ReadValue()
		return append(dst, value...), err
	}
	value, err := dec.ReadToken()
	if err != nil {
		return dst, err
	}
	return jsontext.AppendQuote(dst, AppendCommand(nil, []byte(value.String())))
}

// spaced reports whether arguments may have a command with white space that
// [AppendCommand] changes.
func spaced(arguments []byte) bool {
	return hasName(arguments, commandNames) && slices.ContainsFunc([]string{`"#`, "  ", `\t`, `\r`, ` \n`, `\n"`, ` "}`, ` ",`, `" `, `"\n`}, func(s string) bool { return bytes.Contains(arguments, []byte(s)) })
}

// hasName reports whether arguments have one of names in quotes.
func hasName(arguments []byte, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(arguments, []byte(`"`+name+`"`)) })
}
