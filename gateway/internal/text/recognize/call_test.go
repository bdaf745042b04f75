package recognize_test

import (
	"strings"
	"testing"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
	"github.com/unloop/unloop/schemas/fingerprint"
)

func TestACallIsTheSameHoweverItsArgumentsAreWritten(t *testing.T) {
	t.Parallel()
	call := func(tool, args string) fingerprint.Digest { return recognize.Call(tool, []byte(args)) }
	want := call("read", `{"path":"a.go","limit":1,"opts":{"x":[1,2],"y":null}}`)
	for _, same := range []string{
		`{"limit":1.0,"opts":{"y":null,"x":[1e0,2.00]},"path":"a.go"}`,
		"  {\n\t\"path\" : \"\\u0061.go\",\"limit\":1, \"opts\": {\"x\":[1, 2],\"y\":null} }  ",
	} {
		if call("read", same) != want {
			t.Errorf("%s must be the same call", same)
		}
	}
	for _, other := range []struct{ tool, args string }{
		{"write", `{"path":"a.go","limit":1,"opts":{"x":[1,2],"y":null}}`},
		{"read", `{"path":"a.go","limit":2,"opts":{"x":[1,2],"y":null}}`},
		{"read", `{"path":"a.go","limit":1,"opts":{"x":[2,1],"y":null}}`},
		{"read", `{"path":"a.go","limit":"1","opts":{"x":[1,2],"y":null}}`},
		{"read", `{"path":"a.go","limit":1,"opts":{"x":[1,2]}}`},
	} {
		if call(other.tool, other.args) == want {
			t.Errorf("%s %s must be another call", other.tool, other.args)
		}
	}
}

func TestArgumentsThatAreNoJSONCountByTheirBytes(t *testing.T) {
	t.Parallel()
	call := func(args string) fingerprint.Digest { return recognize.Call("t", []byte(args)) }
	if call("ls -l") != call(" ls -l\n") || call("ls -l") == call("ls  -l") {
		t.Error("raw arguments must be compared trimmed, byte for byte")
	}
	if call(`{"a":1,"a":2}`) == call(`{"a":2,"a":1}`) {
		t.Error("objects with duplicate keys must be compared as they are written")
	}
	if call("") != call("{}") || call("  ") != call("{}") {
		t.Error("no arguments and an empty object must be the same")
	}
	if call("null") == call("{}") || call("x") == call(`"x"`) {
		t.Error("text and JSON must not be confused")
	}
}

func TestErrorsOfOneKindAreOneClass(t *testing.T) {
	t.Parallel()
	class := func(s string) fingerprint.Digest { return recognize.ErrorClass([]byte(s)) }
	for name, pair := range map[string][2]string{
		"paths":         {"Error: ENOENT: no such file or directory, open '/src/a.go'", "Error: ENOENT: no such file or directory, open '/lib/b/c.go'"},
		"bare paths":    {"cat: /etc/a: No such file or directory", "cat: ./b/c.txt: No such file or directory"},
		"quoted":        {`column "foo" does not exist`, `column "bar_baz" does not exist`},
		"numbers":       {"line 12: unexpected token", "line 99: unexpected token"},
		"request ids":   {"500 (request_id=ab12cd34)", "500 (request_id=99zz88yy)"},
		"middle":        {"Traceback (most recent call last):\n  File \"a.py\", line 3\nValueError: bad value", "Traceback (most recent call last):\n  File \"b.py\", line 9, in g\n  x()\nValueError: bad value"},
		"case":          {"ERROR: not found", "Error: Not Found"},
		"trailing line": {"Error: x\n", "Error: x"},
	} {
		if class(pair[0]) != class(pair[1]) {
			t.Errorf("%s: %q and %q must be one class", name, pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"Error: not found", "Error: permission denied"},
		{"Traceback (most recent call last):\nValueError: bad", "Traceback (most recent call last):\nKeyError: bad"},
		{"isn't allowed, can't go on", "isn't possible, can't go on"},
	} {
		if class(pair[0]) == class(pair[1]) {
			t.Errorf("%q and %q must be two classes", pair[0], pair[1])
		}
	}
}

func TestFailedResultsAreKnown(t *testing.T) {
	t.Parallel()
	for _, failed := range []string{
		"Error: file not found", "ERROR file not found", "error", "fatal: not a git repository", "Exception: x", "panic: runtime error",
		"Traceback (most recent call last):\n  File \"x.py\"\nValueError: bad", "ValueError: bad", "openai.RateLimitError: slow down",
		"EACCES: permission denied, open '/etc/a'", "x : The term 'x' is not recognized as the name of a cmdlet.\nAt line:1 char:1",
		"'x' is not recognized as an internal or external command,\noperable program or batch file.",
		"bash: foo: command not found", "ls: /x: No such file or directory", "sh: 1: ./x: Permission denied",
		"bash: -c: line 1: unexpected EOF while looking for matching `\"'\nbash: -c: line 2: syntax error: unexpected end of file",
		"/bin/sh: 1: Syntax error: Unterminated quoted string", "zsh:1: parse error near `)'", "/bin/bash: line 7: x: bad thing\n(Open file: a.go)\nbash-$", "some output\nbash: line 3: y: unbound variable",
		`{"error": {"code": 5}}`, `{ "error" : "x" }`, `{"isError": true, "content": []}`, `{"success": false}`,
		"Exit code 1\nFAIL", "FAIL\nexit status 2", "Process exited with code 127", "make: *** [all] Error\nCommand returned non-zero exit status 3.",
		"Your proposed edit has introduced new syntax error(s).", "Edit failed: no match", "Invalid arguments: path is missing", "Could not find the text to replace.",
		"running\nTraceback (most recent call last):\n  File \"x.py\"\nKeyError: 'a'", `{"status": 404, "path": "/x"}`, "HTTP/1.1 502 Bad Gateway\n\n", "404 Client Error: Not Found",
		"Request failed with status code 500", `{"statusCode":503,"message":"later"}`, "<returncode>1</returncode>\n<output>\n</output>",
		"Command: ls x\nOutput: ls: x\nExit Code: 2\nSignal: (none)\nProcess Group PGID: 77", `{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}`,
		"Failed 3/3 test cases.", "The tool execution failed with the following error:\nno match", "The build failed because of a warning", "usage\n[Command finished with exit code 2]",
		"<tool_use_error>String to replace not found</tool_use_error>", "Failed to connect", "  \nError: x", "Error: no route", `{"error": "denied"}`, "exit code: 2",
	} {
		if !recognize.LooksFailed([]byte(failed)) {
			t.Errorf("%q is a failure", failed)
		}
	}
	for _, fine := range []string{
		"", "ok", "EOF: end of file", "ERROR_COUNT: 0", "0 errors", "errors.go\nmain.go", "Found 3 matches for error", "exit code 0", "Exit code: 0\nall good", "exit status 0",
		`{"error": null, "ok": true}`, `{"errors": []}`, `{"result": "error-free"}`, "failedTests: 0", "The error was fixed.",
		`{"status": 200}`, `{"status": "ok", "count": 404}`, "404 apples and 500 pears", "HTTP/1.1 200 OK", "The exam was not failed.", "<returncode>0</returncode>",
		"Command: ls\nOutput: a\nExit Code: 0\nSignal: (none)", `{"output":"x","metadata":{"exit_code":0}}`, "def f():\n    raise ValueError(\"Traceback\")", "Unknown",
		"func Error() string {\n\treturn \"Error: x\"\n}", "erroneous", "no error found", `{"error": null}`, "func handleError() {", "terror", "[File: errors.py (10 lines total)]",
		"bash: line 1: warning: here-document at line 1 delimited by end-of-file", "./run.sh: line 3: x", "bash: 3 jobs", "sh: done: 3",
	} {
		if recognize.LooksFailed([]byte(fine)) {
			t.Errorf("%q is no failure", fine)
		}
	}
}

func TestFailurePatternsAreAdded(t *testing.T) {
	t.Parallel()
	f, err := recognize.NewFailures(`(?m)^NOK\b`)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Match([]byte("step 1\nNOK 17")) || f.Match([]byte("Error: x")) {
		t.Error("the pattern alone must decide")
	}
	if !f.Match([]byte(strings.Repeat(".", 1<<20) + "\nNOK")) {
		t.Error("the end of a long result must be seen")
	}
	if _, err := recognize.NewFailures(`[`); err == nil {
		t.Error("a broken pattern must be an error")
	}
}

func TestSummariesOfAConversationAreKnown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"This session is being continued from a previous conversation that ran out of context.": true,
		"Here is a summary of the conversation to date:\n\n…":                                   true,
		"<state_snapshot><overall_goal>…":                                                       true,
		"Please try again":                                                                      false,
		"Write a summary of chapter":                                                            false,
		"":                                                                                      false,
	} {
		if recognize.IsSummary([]byte(text)) != want {
			t.Errorf("IsSummary(%q) must be %v", text, want)
		}
	}
}

// Stored sessions hold these: a change makes them forget what they counted.
func TestCallsAndResultsStayWhatTheyWere(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"call":   {recognize.Call("read", []byte(`{"b":1.0,"a":["x",null]}`)).String(), "9c7900d6b22224eb9b9bda3cec98c361"},
		"result": {recognize.Result([]byte("2026-05-22T14:30:00Z ok, took 5ms"), nil).String(), "b68bdfb501f0ebba19cc17cbacf8714a"},
		"class":  {recognize.ErrorClass([]byte("Error: no file '/a/b'\nexit status 1")).String(), "b30d0678bd3a15e65a9132fdbf971e2b"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %s, want %s", name, pair[0], pair[1])
		}
	}
}
