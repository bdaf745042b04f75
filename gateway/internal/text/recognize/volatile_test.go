package recognize_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/gateway/internal/text/recognize"
)

func sameResult(a, b string) bool {
	return recognize.Result([]byte(a), nil) == recognize.Result([]byte(b), nil)
}

func TestVolatilePartsOfResultsDoNotMatter(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"ISO timestamp":           {"at 2026-05-22T14:30:00Z ok", "at 2027-01-02T03:04:05Z ok"},
		"fraction and offset":     {"[2026-05-22T14:30:00.123456+02:00] up", "[2026-05-22T14:30:01.9+02:00] up"},
		"log timestamp":           {"2026-05-22 14:30:00,123 INFO up", "2026-05-22 14:30:59,001 INFO up"},
		"slashes":                 {"2026/05/22 14:30:00 up", "2026/05/22 14:31:00 up"},
		"US date":                 {"5/22/2026, 2:30:00 PM up", "5/22/2026, 2:31:00 PM up"},
		"access log":              {`- [22/May/2026:14:30:00 +0000] "GET /"`, `- [22/May/2026:14:30:07 +0000] "GET /"`},
		"HTTP date":               {"Date: Fri, 22 May 2026 14:30:00 GMT", "Date: Sat, 23 May 2026 01:02:03 GMT"},
		"ctime":                   {"Fri May 22 14:30:00 2026", "Fri May 22 14:30:01 2026"},
		"syslog":                  {"May  2 14:30:00 host sshd[1]: x", "May 12 04:30:01 host sshd[1]: x"},
		"long month":              {"on May 22, 2026 at 2:30 PM", "on May 23, 2026 at 11:31 AM"},
		"time of day":             {"14:30:00: starting", "14:30:01: starting"},
		"time with fraction":      {"elapsed 0:00:05.123456", "elapsed 0:00:07.000001"},
		"compact":                 {"backup-20260522T143000Z.tgz", "backup-20260523T143001Z.tgz"},
		"Go time":                 {"2026-05-22 14:30:00.123 +0000 UTC m=+0.000012345 x", "2026-05-22 14:30:09.1 +0000 UTC m=+9.5 x"},
		"Unix seconds":            {`{"created":1779460200}`, `{"created":1779460999}`},
		"Unix seconds fraction":   {"t=1779460200.123 x", "t=1779460200.9 x"},
		"Unix milliseconds":       {"ts 1779460200123,", "ts 1779460200999,"},
		"UUID":                    {"job 123e4567-e89b-12d3-a456-426614174000 ok", "job FFFFFFFF-e89b-12d3-a456-426614174fff ok"},
		"request id in JSON":      {`{"request_id": "abc-123", "ok": true}`, `{"request_id": "zz9.88", "ok": true}`},
		"request id in a header":  {"X-Request-Id: 7f00aa12\nok", "X-Request-Id: 91b2cc34\nok"},
		"trace id in camel case":  {"traceId=4bf92f3577b34da6 ok", "traceId=00f067aa0ba902b7 ok"},
		"request id in words":     {"Request ID: 12345-abc failed", "Request ID: 99999-xyz failed"},
		"vendor's request id":     {"(req_011CSHoEeqs5C35K2UUqR7Fy)", "(req_011CSHoEeqs5C35K2Uxxxx99)"},
		"milliseconds":            {"done in 12ms", "done in 13.5ms"},
		"seconds":                 {"ok  \tpkg\t0.123s", "ok  \tpkg\t10.4s"},
		"pytest":                  {"===== 3 passed in 0.05s =====", "===== 3 passed in 1.25s ====="},
		"compound":                {"took 1m2.5s", "took 3h2m1s"},
		"words":                   {"Finished in 3 seconds", "Finished in 14 seconds"},
		"microseconds":            {"lat 12µs", "lat 7µs"},
		"address":                 {"<Foo object at 0x7f3a9012ab40>", "<Foo object at 0x7f3a90ffffff>"},
		"pid":                     {"started pid 4711", "started pid 12"},
		"pid, assigned":           {"server pid=4711 up", "server pid=90210 up"},
		"pids":                    {"Background PIDs: 4711, 4712", "Background PIDs: 90210"},
		"process group":           {"a\nProcess Group PGID: 10516", "a\nProcess Group PGID: 10530"},
		"thread":                  {"thread id 140735 panicked", "thread id 7 panicked"},
		"chunk":                   {`{"chunk_id": "860463", "x": 1}`, `{"chunk_id": "ab01ff", "x": 1}`},
		"a shell's session":       {"Process running with session ID 51", "Process running with session ID 7"},
		"background task":         {"in background with ID: b7mn2clg0. Output: /t/b7mn2clg0.output.", "in background with ID: bx91kq2z4. Output: /t/bx91kq2z4.output."},
		"measured time":           {`{"wall_time_seconds": 0.0000087, "x": 1}`, `{"wall_time_seconds": 1.2e-05, "x": 1}`},
		"duration of a call":      {`"duration_ms":17,`, `"duration_ms":170,`},
		"a free port":             {"listening on 127.0.0.1:54321", "listening on 127.0.0.1:40001"},
		"a job":                   {"[1] 4711\n", "[1] 90210\n"},
		"a mangled symbol":        {"core::fmt::h0123456789abcdef at", "core::fmt::hfedcba9876543210 at"},
		"Python's temporary":      {"wrote /tmp/tmpab12_x9z/a", "wrote /tmp/tmpq0q0q0q0/a"},
		"mktemp":                  {"wrote /tmp/tmp.Xy12AbCd9q", "wrote /tmp/tmp.Zz98QwErTy"},
		"elements of a page":      {"- button \"Buy\" [ref=e12]\n- link [ref=e13]", "- button \"Buy\" [ref=e112]\n- link [ref=e113]"},
		"elements of a frame":     {"button ref=f1e2", "button ref=s3e20"},
		"elements by their page":  {"uid=1_12 button \"Buy\"", "uid=2_14 button \"Buy\""},
		"a pod":                   {"pod/web-5d4f8c7b9-x2x4z Running", "pod/web-7c9b8d5f4-abcde Running"},
		"time and duration":       {"2026-05-22T14:30:00Z no change, took 1ms", "2026-05-22T14:30:04Z no change, took 5ms"},
		"log in brackets":         {"[2026-01-02 03:04:05.123] ok", "[2026-01-02 03:04:06.456] ok"},
		"time, then a word":       {"12:01:02 ready", "12:01:59 ready"},
		"request id, short":       {`{"request_id": "abc-1"}`, `{"request_id": "xyz-2"}`},
		"spaced milliseconds":     {"took 17 ms", "took 230 ms"},
		"fraction and a space":    {"Time:        1.137 s, estimated 2 s", "Time:        12.4 s, estimated 13 s"},
		"a time of test runners":  {"Time:        2 s", "Time:        3 s"},
		"a time without a unit":   {"Time: 0.011\nOK", "Time: 0.1\nOK"},
		"a time with minutes":     {"Time: 00:00.012, Memory: 6.00 MB", "Time: 01:10.3, Memory: 6.00 MB"},
		"what is done per second": {"2 tests in 0.1s, 1612.7455 runs/s", "2 tests in 0.2s, 812.1 runs/s"},
		"a speed":                 {"at 3.1MB/s", "at 12 MB/sec"},
		"a container":             {"task for container 0123456789ab: failed", "task for container ba9876543210: failed"},
		"a build's time":          {"[INFO] Total time:  3.4 s", "[INFO] Total time:  11.021 s"},
		"a shell's line":          {"bash: line 50776: javac: command not found", "bash: line 50791: javac: command not found"},
		"a line behind a path":    {"/bin/bash: line 2: unexpected EOF", "/bin/bash: line 7: unexpected EOF"},
		"a line of a command":     {"bash: -c: line 2: unexpected EOF", "bash: -c: line 7: unexpected EOF"},
		"dash's line":             {"sh: 12: javac: not found", "sh: 14: javac: not found"},
		"zsh's line":              {"ok\nzsh:12: command not found: x", "ok\nzsh:14: command not found: x"},
		"saved output of a tool":  {"saved to tool_01AbCdEfGhIjKlMnOpQrStUv.txt", "saved to tool_02ZzYyXxWwVvUuTtSsRrQq.txt"},
		"a saved result":          {"see /tool-results/a1b2c3.txt", "see /tool-results/z9y8x7.txt"},
		"a saved output":          {"see b7mn2clg0.output", "see bx91kq2z4.output"},
		"exponent of a time":      {"took=1.5e+3 x", "took=2e9 x"},
		"a day and a date":        {"Mon, 05/22/2026 14:30:00 up", "Tue, 05/23/2026 14:31:00 up"},
		"a date in letters":       {"22/May/2026 14:30:00 up", "23/May/2026 14:31:00 up"},
		"offset without a colon":  {"2026-05-22 14:30:00 +0200 up", "2026-05-22 14:31:00 -0700 up"},
		"hours and minutes":       {"up 3 hours", "up 5 hours"},
		"outer white space":       {"ok\n", "  ok"},
		"several at once":         {"2026-05-22T14:30:00Z took 5ms id 123e4567-e89b-12d3-a456-426614174000", "2026-05-22T14:30:07Z took 9ms id 00000000-e89b-12d3-a456-426614174000"},
	} {
		if !sameResult(pair[0], pair[1]) {
			t.Errorf("%s: %q and %q must be the same result", name, pair[0], pair[1])
		}
	}
}

func TestWhatMayBeProgressMatters(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"a number":               {"344", "345"},
		"a percentage":           {"35% done", "40% done"},
		"a count":                {"3 passed in 0.05s", "4 passed in 0.05s"},
		"a date alone":           {"released 2026-05-22", "released 2026-05-23"},
		"a commit":               {"HEAD is now at 1a2b3c4d5e", "HEAD is now at 1a2b3c4d5f"},
		"a full commit":          {"commit 9fceb02d0ae598e95dc970b74767f19372d61af8", "commit 9fceb02d0ae598e95dc970b74767f19372d61af9"},
		"a page":                 {"page 1", "page 2"},
		"a version":              {"v1.2.3", "v1.2.4"},
		"a port":                 {"listening on :8080", "listening on :8081"},
		"a line and column":      {"main.go:12:34: undefined", "main.go:12:35: undefined"},
		"an order number":        {"order 1234567890", "order 1234567891"},
		"a small hex number":     {"flags 0x1F", "flags 0x2F"},
		"a length":               {"5 m of rope", "6 m of rope"},
		"a whole length":         {"3 s of silk", "4 s of silk"},
		"a scale":                {"3.5 m of rope", "3.6 m of rope"},
		"a fraction and a word":  {"3.5 stars", "3.6 stars"},
		"a line of a script":     {"./run.sh: line 3: x: command not found", "./run.sh: line 4: x: command not found"},
		"a line of a program":    {"main.py: line 3: unused", "main.py: line 4: unused"},
		"a line of code":         {"line 3: x", "line 4: x"},
		"a value behind a name":  {"bash: 3 jobs", "bash: 4 jobs"},
		"a MAC address":          {"00:11:22:33:44:55", "00:11:22:33:44:56"},
		"a job's id":             {`{"job_id": 7}`, `{"job_id": 8}`},
		"an item's id":           {"created item with ID 42", "created item with ID 43"},
		"a price":                {"paid 4711", "paid 12"},
		"a port of a service":    {"http://localhost:8080", "http://localhost:8081"},
		"a user's number":        {"uid=1000(ada)", "uid=1001(ada)"},
		"a reference":            {"ref: e-mail 1", "ref: e-mail 2"},
		"a ref of git":           {"ref=e12ab", "ref=e13ab"},
		"a temporary file":       {"/tmp/report.txt", "/tmp/result.txt"},
		"a name with a dash":     {"web-frontend-tests ok", "web-frontend-lints ok"},
		"a file's id":            {`{"file_id": "abc-123"}`, `{"file_id": "abc-124"}`},
		"a word after an id":     {"request id missing here", "request id present here"},
		"removed or not there":   {"took 5ms", "took "},
		"white space inside":     {"a b", "a  b"},
		"case":                   {"OK", "ok"},
		"the name of a month":    {"in May 22 people", "in May 23 people"},
		"a word after a name":    {"session ID: abcxyz", "session ID: abcxyy"},
		"a port of another host": {"http://example.com:54321", "http://example.com:54322"},
		"a long id":              {"pid 12345678901234567", "pid 12345678901234568"},
		"digits of another kind": {"id 123456789012", "id 123456789013"},
		"a wrong UUID":           {"123e4567-e89b-12d3-a456x426614174000 1", "123e4567-e89b-12d3-a456x426614174000 2"},
		"no hex in a UUID":       {"123e4567-e89b-12d3-a456-42661417400g 1", "123e4567-e89b-12d3-a456-42661417400g 2"},
		"half a pod":             {"web-5d4f8c7b9-X2x4z", "web-5d4f8c7b9-X2x4y"},
		"a longer pod":           {"web-5d4f8c7b9-x2x4zq", "web-5d4f8c7b9-x2x4zr"},
		"an odd compact stamp":   {"20260522T1430001", "20260522T1430002"},
		"an odd offset":          {"2026-05-22 +123", "2026-05-22 +124"},
		"a month in a name":      {"marching 12:30", "marching 12:31"},
		"a date of a month":      {"5 May 20", "6 May 20"},
		"a date of three parts":  {"1/2/3 x", "1/2/4 x"},
		"an early epoch":         {"1179460200 x", "1179460201 x"},
		"an unfinished number":   {"5 ", "6 "},
		"part of a larger word":  {"abc12ms", "abc13ms"},
	} {
		if sameResult(pair[0], pair[1]) {
			t.Errorf("%s: %q and %q must differ", name, pair[0], pair[1])
		}
	}
}

func TestResultsAreComparedWholeUpTo1000Bytes(t *testing.T) {
	t.Parallel()
	change := func(s string, i int) string { return s[:i] + "X" + s[i+1:] }
	whole := strings.Repeat("a", 1000)
	for _, i := range []int{0, 499, 500, 501, 999} {
		if sameResult(whole, change(whole, i)) {
			t.Errorf("a change at byte %d of 1000 is lost", i)
		}
	}
	long := strings.Repeat("a", 5000)
	for i, same := range map[int]bool{0: false, 499: false, 500: true, 2500: true, 4499: true, 4500: false, 4999: false} {
		if sameResult(long, change(long, i)) != same {
			t.Errorf("change at byte %d of 5000: same result is %v, want %v", i, !same, same)
		}
	}
	if sameResult(long, long+"a") {
		t.Error("two lengths must be two results")
	}
	if sameResult(whole, whole+"a") {
		t.Error("1000 and 1001 bytes must be two results")
	}
	if !sameResult("2026-05-22T14:30:00Z "+long, "1779460200 "+long) {
		t.Error("the length must be that of the cleaned text")
	}
}

func TestVolatileKindsAndPatternsAreChosen(t *testing.T) {
	t.Parallel()
	compare := func(v *recognize.Volatile, a, b string) bool {
		return recognize.Result([]byte(a), v) == recognize.Result([]byte(b), v)
	}
	none, err := recognize.NewVolatile(0)
	if err != nil {
		t.Fatal(err)
	}
	if compare(none, "5ms", "6ms") || compare(none, "0x7f3a9012ab40", "0x7f3a9012ab41") {
		t.Error("nothing may be removed")
	}
	pids, err := recognize.NewVolatile(recognize.Durations, `pid \d+`)
	if err != nil {
		t.Fatal(err)
	}
	if !compare(pids, "pid 17 up 5s", "pid 2345 up 6s") || compare(pids, "at 14:30:00", "at 14:30:01") {
		t.Error("durations and the pattern, and nothing else, must be removed")
	}
	if _, err := recognize.NewVolatile(0, `(`); err == nil {
		t.Error("a broken pattern must be an error")
	}
}

// reference removes UUIDs and ISO timestamps as the scanner does, by regular
// expressions.
var reference = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\b`)

func TestScannerAgreesWithRegularExpressions(t *testing.T) {
	t.Parallel()
	part := rapid.SampledFrom([]string{
		"123e4567-e89b-12d3-a456-426614174000", "2026-05-22T14:30:00Z", " ", "\n", ".", "-", "word", "x1", "(", "é", "2026-05-22", "{}",
	})
	none, err := recognize.NewVolatile(0)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := recognize.NewVolatile(recognize.UUIDs | recognize.Timestamps)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		// A hyphen or a letter of another script beside a match is where the two
		// draw words differently; the space keeps that out.
		text := []byte(strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), " "))
		got := recognize.Result(text, chosen)
		want := recognize.Result(reference.ReplaceAll(bytes.TrimSpace(text), []byte{0}), none)
		if got != want {
			t.Fatalf("%q", text)
		}
	})
}

func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		"Fri, 22 May 2026 14:30:00 GMT", "request_id=", "0x", "12:34:", "May 2", "1m", "20260522T", "5 ", "req_", "m=+", "2026-05-22 at", "µs 5µ",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		a := recognize.Result(text, nil)
		if !bytes.Equal(before, text) {
			t.Fatal("the input was changed")
		}
		if b := recognize.Result(append(bytes.Clone(text), " \n"...), nil); a != b {
			t.Fatal("white space after the result matters")
		}
		recognize.ErrorClass(text)
		recognize.LooksFailed(text)
		recognize.IsSummary(text)
		recognize.TraitsOf("bash", text)
		recognize.Call("bash", text)
		recognize.AppendSystem(nil, text)
		recognize.AppendClockless(nil, text, time.Unix(1779460200, 0))
	})
}

func BenchmarkResult(b *testing.B) {
	line := "2026-05-22T14:30:00Z INFO server.go:123 handled request_id=ab12cd34 GET /items/42 in 12.5ms status=200\n"
	for name, text := range map[string]string{
		"log":   strings.Repeat(line, 10_000),
		"code":  strings.Repeat("\tif err := store.Update(ctx, item.ID, count+1); err != nil { return fmt.Errorf(\"update: %w\", err) }\n", 10_000),
		"short": "File updated. Please review the changes.",
	} {
		b.Run(fmt.Sprintf("%s-%dKB", name, len(text)>>10), func(b *testing.B) {
			data := []byte(text)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				recognize.Result(data, nil)
			}
		})
	}
}

func TestLongResultsOfManyPartsAreComparedByTheirEnds(t *testing.T) {
	t.Parallel()
	line := func(second int, end string) string {
		return strings.Repeat(fmt.Sprintf("2026-05-22T14:30:%02dZ some text that stays\n", second), 200) + end
	}
	if !sameResult(line(1, "done"), line(2, "done")) || sameResult(line(1, "done"), line(1, "gone")) {
		t.Error("times must not matter, and the end must")
	}
}
