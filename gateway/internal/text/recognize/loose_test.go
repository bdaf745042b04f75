package recognize_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func TestWhiteSpaceWithinCommandsIsOneSpace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"inner spaces":        {`{"command":"ls  -l   a"}`, `{"command":"ls -l a"}`, true},
		"a tab":               {`{"cmd":"ls\t-l"}`, `{"cmd":"ls -l"}`, true},
		"the end":             {`{"command":"ls -l\n"}`, `{"command":"ls -l"}`, true},
		"ends of lines":       {`{"command":"a  \nb"}`, `{"command":"a\nb"}`, true},
		"a query":             {`{"query":"SELECT  1 ","n":1}`, `{"n":1,"query":"SELECT 1"}`, true},
		"quoted":              {`{"command":"echo 'a  b'"}`, `{"command":"echo 'a b'"}`, false},
		"indentation":         {`{"command":"if x:\n  y()"}`, `{"command":"if x:\n    y()"}`, false},
		"a here-document":     {`{"command":"cat <<E\na  b\nE"}`, `{"command":"cat <<E\na b\nE"}`, false},
		"another argument":    {`{"text":"a  b"}`, `{"text":"a b"}`, false},
		"a nested argument":   {`{"x":{"command":"a  b"}}`, `{"x":{"command":"a b"}}`, false},
		"a description":       {`{"command":"ls","description":"List"}`, `{"description":"Look again","command":"ls"}`, true},
		"a longer time":       {`{"cmd":["ls"],"timeout_ms":1000}`, `{"cmd":["ls"],"timeout_ms":2000}`, true},
		"a comment":           {`{"command":"# once\nls"}`, `{"command":"# twice\n\nls"}`, true},
		"a later comment":     {`{"command":"ls\n# a"}`, `{"command":"ls\n# b"}`, false},
		"comments alone":      {`{"command":"# a"}`, `{"command":"# b"}`, false},
		"another folder":      {`{"command":"ls","cwd":"a"}`, `{"command":"ls","cwd":"b"}`, false},
		"of a record":         {`{"title":"x","description":"a"}`, `{"title":"x","description":"b"}`, false},
		"cut off":             {`{"command":"a  b"`, `{"command":"a b"`, false},
		"cut off in a name":   {`{"command":"a  b","x`, `{"command":"a b","x`, false},
		"cut off in a reason": {`{"command":"a  b","description":"`, `{"command":"a b","description":"`, false},
		"a broken command":    {`{"command":"a  \q"}`, `{"command":"a \q"}`, false},
		"no member left":      {`{"description":"a","timeout":1}`, `{"description":"b","timeout":1}`, false},
		"a list of words":     {`{"command":["ls",  "-l"]}`, `{"command":["ls","-l"]}`, true},
		"duplicate commands":  {`{"command":"a  b","command":"c"}`, `{"command":"a b","command":"c"}`, false},
	} {
		if same := recognize.Call("t", []byte(c.a)) == recognize.Call("t", []byte(c.b)); same != c.same {
			t.Errorf("%s: one call is %v, want %v", name, same, c.same)
		}
	}
}

const edit = `{"command":"edit 12:14\n    return oven.temperature + offset\nend_of_edit"}`

func TestCallsThatDifferInWhatChangesByItselfAreAlike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b   string
		failed bool
		alike  bool
	}{
		"line numbers":            {edit, `{"command":"edit 7:9\n  return  oven.temperature + offset\nend_of_edit\n"}`, true, true},
		"a place of a page":       {`{"url":"https://example.com/a#top"}`, `{"url":"https://example.com/a#end"}`, false, true},
		"where a visitor is from": {`{"url":"https://example.com/a?utm_source=x"}`, `{"url":"https://example.com/a?utm_source=y"}`, false, true},
		"another edit":            {edit, `{"command":"edit 12:14\n    return oven.temperature - offset\nend_of_edit"}`, true, false},
		"numbers, no failure":     {edit, `{"command":"edit 7:9\n    return oven.temperature + offset\nend_of_edit"}`, false, false},
		"short, the number all":   {`{"order":12}`, `{"order":13}`, true, false},
		"UUIDs":                   {`{"id":"123e4567-e89b-12d3-a456-426614174000"}`, `{"id":"00000000-e89b-12d3-a456-426614174000"}`, false, true},
		"elements of a page":      {`{"element":"Buy","ref":"s2e9"}`, `{"element":"Buy","ref":"s3e9"}`, false, true},
		"times":                   {`{"now":"2026-05-22T14:30:00Z"}`, `{"now":"2026-05-22T14:30:05Z"}`, false, true},
		"against a cache":         {`{"url":"https://a.example/x?q=1&_=1763980000"}`, `{"url":"https://a.example/x?q=1&_=1763980009"}`, false, true},
		"escaped in a URL":        {`{"url":"https://a.example/x?q=1\u0026cb=1"}`, `{"url":"https://a.example/x?q=1\u0026cb=2"}`, false, true},
		"attempts in a URL":       {`{"url":"https://a.example/x?try=1"}`, `{"url":"https://a.example/x?try=2"}`, false, true},
		"what a URL asks for":     {`{"url":"https://a.example/x?id=1&try=1"}`, `{"url":"https://a.example/x?id=2&try=1"}`, false, false},
		"aliases of tables":       {`{"query":"SELECT u1.a FROM users u1\nJOIN b AS o7 ON o7.b = 1"}`, `{"query":"SELECT u2.a FROM users u2\nJOIN b AS o8 ON o8.b = 1"}`, false, true},
		"other files":             {`{"task":"Copy from there file1"}`, `{"task":"Copy from there file2"}`, false, false},
		"files with an ending":    {`{"task":"Copy from there file1.txt"}`, `{"task":"Copy from there file2.txt"}`, false, false},
		"a moment":                {`{"url":"https://a.example/x?ts=1"}`, `{"url":"https://a.example/x?ts=2"}`, false, false},
		"other tables":            {`{"query":"SELECT t1.a FROM users1 t1"}`, `{"query":"SELECT t1.a FROM users2 t1"}`, false, false},
		"other rows":              {`{"query":"SELECT t1.a FROM users t1 WHERE t1.id = 1"}`, `{"query":"SELECT t1.a FROM users t1 WHERE t1.id = 2"}`, false, false},
		"nothing volatile":        {`{"id":"a"}`, `{"id":"a"}`, false, false},
	} {
		a, b := recognize.Loose("t", []byte(c.a), c.failed), recognize.Loose("t", []byte(c.b), c.failed)
		if alike := !a.IsZero() && a == b; alike != c.alike {
			t.Errorf("%s: alike is %v, want %v", name, alike, c.alike)
		}
		if recognize.Call("t", []byte(c.a)) == recognize.Call("t", []byte(c.b)) && c.a != c.b {
			t.Errorf("%s: one call", name)
		}
	}
}

func TestEmptyResultsOfCallsThatSeek(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, " \n": true, "[]": true, "{}": true, "No results found.": true, "No output": true, `{"results": [], "total": 0}`: true, "NULL": true,
		strings.Repeat("[]", 200): false, "ok": false, "0": false, `{"results": [1]}`: false, "no results for that, but a hint": false,
	} {
		if got := recognize.IsEmpty([]byte(text)); got != want {
			t.Errorf("IsEmpty(%q): %v, want %v", text, got, want)
		}
	}
	for call, want := range map[[2]string]bool{
		{"search", `{"q":"a"}`}: true, {"list_orders", `{}`}: true, {"bash", `{"command":"grep -rn a ."}`}: true, {"bash", `{"command":"cd a && rg b"}`}: true,
		{"delete_order", `{}`}: false, {"bash", `{"command":"mkdir a"}`}: false, {"bash", `{"command":"cat a > b"}`}: false, {"click", `{}`}: false, {"think", `{"thought":"a"}`}: false, {"search_notes", `{}`}: true,
	} {
		if got := recognize.Seeks(call[0], []byte(call[1])); got != want {
			t.Errorf("Seeks(%s, %s): %v, want %v", call[0], call[1], got, want)
		}
	}
}

func TestWaitingForACommandsOutputIsAPoll(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		`{"session_id":1,"chars":""}`: true, `{"session_id":1}`: true, `{"session_id":1,"chars":null}`: true,
		`{"session_id":1,"chars":"y\n"}`: false, `[]`: false, `{`: false, `{"session_id":`: false, `{"chars":1}`: false, `{1:2}`: false,
	} {
		if got := recognize.TraitsOf("write_stdin", []byte(args)).Poll; got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
	for command, want := range map[string]bool{
		"tail -n 5 /var/log/syslog": true, "tail -f a": true, "tail -n 1 a.txt": false, "ps aux | grep web": true, "ps -eo pid | xargs kill": false,
	} {
		if got := recognize.TraitsOf("bash", []byte(`{"command":"`+command+`"}`)).Poll; got != want {
			t.Errorf("%s: %v, want %v", command, got, want)
		}
	}
}

func TestCallsThatAgentsWriteAsText(t *testing.T) {
	t.Parallel()
	call := func(tool, command string) any { return recognize.TextCall(tool, []byte(command)) }
	if call("bash", "ls  -l \n") != call("bash", "# look\nls -l") {
		t.Error("white space and comments must not matter")
	}
	if call("bash", "ls -l") == call("sh", "ls -l") || call("bash", "ls -l") == call("bash", "ls -a") {
		t.Error("another tool or command must be another call")
	}
	for _, c := range []struct {
		tool, command string
		shell, want   bool
	}{{"bash", "docker ps", true, true}, {"python", "docker ps", false, false}, {"get_status", "x", false, true}, {"bash", "ls", true, false}} {
		if got := recognize.TextTraitsOf(c.tool, []byte(c.command), c.shell).Poll; got != c.want {
			t.Errorf("%s %s: %v, want %v", c.tool, c.command, got, c.want)
		}
	}
}

// A query with as many aliases as fit is read in one pass.
func BenchmarkLooseOfManyAliases(b *testing.B) {
	for _, size := range []int{100_000, 1_000_000} {
		var query strings.Builder
		for i := 0; query.Len() < size; i++ {
			fmt.Fprintf(&query, "from a b%d where b%d.x ", i, i)
		}
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(query.Len()))
			for b.Loop() {
				recognize.Loose("t", []byte(query.String()), false)
			}
		})
	}
}
