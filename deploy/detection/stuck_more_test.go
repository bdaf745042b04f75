package detection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// moreStuckScenes are agents and programs that go in circles in further ways.
var moreStuckScenes = []circling{
	{"a prompt each second, before the answer to the last", func(s *scene) {
		for i := range 600 {
			s.agent(time.Duration(i) * time.Second).user("What is the weather in Lima?").ask()
		}
	}, 600, 200},
	{"a prompt whose answers take a minute, every ten seconds", func(s *scene) {
		for i := range 400 {
			a := s.agent(time.Duration(i) * 10 * time.Second).user("What is the weather in Lima?")
			a.think = time.Minute
			a.ask()
		}
	}, 400, 300},
	{"a prompt whose answers take half a minute, twice a second", func(s *scene) {
		for i := range 600 {
			a := s.agent(time.Duration(i) * 500 * time.Millisecond).user("What is the weather in Lima?")
			a.think = 30 * time.Second
			a.ask()
		}
	}, 600, 500},
	{"a loop that is sent before its answers", func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for range 12 {
			a.call("bash", `{"command":"cat missing.txt"}`, "cat: missing.txt: No such file or directory", -2*time.Second)
		}
	}, 3, 5},
	{"windows of a file whose ranges all differ", func(s *scene) {
		a := s.agent(0).user("Find the bug.")
		for i := range 30 {
			from := i * 37 % 200
			a.call("read_file", fmt.Sprintf(`{"path":"big.c","offset":%d,"limit":%d}`, from, 60+i), linesOf(from, 60+i), time.Second)
		}
	}, 16, 0},
	{"windows of a file whose ranges all differ, in a shell", func(s *scene) {
		a := s.agent(0).user("Find the bug.")
		for i := range 30 {
			from := i * 53 % 200
			a.call("bash", fmt.Sprintf(`{"command":"sed -n '%d,%dp' big.c"}`, from, from+60+i), linesOf(from, 60+i), time.Second)
		}
	}, 24, 0},
	{"a search in other words with the same hits", func(s *scene) {
		a := s.agent(0).user("Find the price.")
		for i := range 16 {
			a.call("web_search", fmt.Sprintf(`{"query":"%s lamp price"}`, names(16)[i]), "1. Lamps - prices and tests\n2. The lamp shop: all the lamps\n3. Lamp - an encyclopedia\n4. Buy lamps here\n5. Light and shadow magazine\n6. Cheap lamps online\n7. Lamp repair", time.Second)
		}
	}, 10, 0},
	{"a search in other words with two hits", func(s *scene) {
		a := s.agent(0).user("Find the price.")
		for i := range 16 {
			a.call("web_search", fmt.Sprintf(`{"query":"%s lamp price"}`, names(16)[i]), "1. Lamps - prices and tests\n2. The lamp shop", time.Second)
		}
	}, 14, 0},
	{"one file rewritten with the same text", same(14, time.Second, "write_file", always(`{"path":"a.go","content":"package a"}`), always("The file has been written.")), 3, 5},
	{"an edit and its reverse", func(s *scene) {
		a := s.agent(0).user("Fix it.")
		for i := range 20 {
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":"%d","new":"%d"}`, i%2, (i+1)%2), "The file has been edited.", time.Second)
		}
	}, 8, 12},
	{"an edit and its reverse, with tests", func(s *scene) {
		a := s.agent(0).user("Fix it.")
		for i := range 20 {
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":"%d","new":"%d"}`, i%2, (i+1)%2), "The file has been edited.", time.Second).call("bash", `{"command":"go test"}`, []string{"FAIL: A", "FAIL: B"}[i%2], 3*time.Second)
		}
	}, 14, 20},
	{"a login with other passwords", same(20, time.Second, "login", numbered(`{"user":"admin","password":"guess%d"}`), always("Invalid credentials")), 8, 0},
	{"an end that is refused", same(12, time.Second, "finish", numbered(`{"summary":"I did it, version %d"}`), always("Error: the tests do not pass. You may not finish yet.")), 8, 14},
	{"a harness that says continue, answered alike", func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for range 14 {
			a.answer("The task is complete.").wait(time.Second).user("Continue.")
		}
	}, 6, 11},
	{"a harness that wants a last call", func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for i := range 14 {
			a.answer(fmt.Sprintf("The task is %s complete.", names(14)[i])).wait(time.Second).user("Please continue working on the task. If it is done, call finish.")
		}
	}, 8, 0},
	{"two agents that thank each other", func(s *scene) {
		a := s.agent(0).user("Agree with the other agent.")
		for range 14 {
			a.answer("Thank you! Goodbye.").wait(2 * time.Second).user("Thank you too! Goodbye.")
		}
	}, 6, 11},
	{"a host that does not exist, with another header", same(14, time.Second, "bash", numbered(`{"command":"curl -H 'X-Attempt: %d' https://api.example.com/v1"}`), always("curl: (6) Could not resolve host: api.example.com")), 8, 14},
	{"versions that do not exist", same(16, time.Second, "bash", numbered(`{"command":"pip install foo==1.%d"}`), numbered("ERROR: No matching distribution found for foo==1.%d")), 8, 14},
	{"sleep without an end", same(40, 5*time.Second, "bash", always(`{"command":"sleep 5"}`), always("")), 20, 0},
	{"clicks that change nothing", same(16, time.Second, "click", numbered(`{"ref":"e%d"}`), always("Clicked.\n- page: Checkout\n  - heading: Pay\n  - button: Pay now [ref=e7]\n  - link: Terms of service\n  - link: Privacy notice\n  - text: Card was declined")), 10, 0},
	{"a call with a new id each time", same(14, time.Second, "api", func(i int) string {
		return fmt.Sprintf(`{"op":"list","request_id":"%08x-1111-4222-8333-%012x"}`, 7919*i+5, 104729*i+9)
	}, always(`{"items":["a","b"],"next":null,"total":2}`)), 8, 0},
	{"a result with a new time each time", same(9, time.Second, "api", always(`{"op":"list"}`), func(i int) string {
		return fmt.Sprintf(`{"items":["a"],"at":"2026-03-02T09:00:%02dZ","request_id":"req_%016x"}`, i, 7919*i+77)
	}), 4, 6},
	{"a call that is written in other ways", same(9, time.Second, "api", func(i int) string {
		return []string{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `{ "a": 1, "b": 2 }`}[i%3]
	}, always("x is y")), 4, 6},
	{"the same todo list", same(14, time.Second, "todo_write", always(`{"todos":[{"content":"fix it","status":"in_progress"}]}`), always("Todos have been modified successfully.")), 6, 10},
	{"ever more of a short file", same(14, time.Second, "bash", numbered(`{"command":"head -n 1%d a.go"}`), always(linesOf(0, 9))), 8, 0},
	{"three files round robin, slowly", func(s *scene) {
		a := s.agent(0).user("Fix it.")
		for i := range 24 {
			a.call("read_file", fmt.Sprintf(`{"path":"%s.go"}`, []string{"a", "b", "c"}[i%3]), "package "+[]string{"a", "b", "c"}[i%3], 45*time.Second)
		}
	}, 9, 12},
	{"searches that find nothing", same(18, time.Second, "search", func(i int) string { return fmt.Sprintf(`{"query":"the %s of it"}`, names(18)[i]) }, always("No results found.")), 8, 0},
	{"a user who is a program", func(s *scene) {
		a := s.agent(0).user("Hello")
		for range 16 {
			a.answer("Is there anything else?").wait(time.Second).user("ok")
		}
	}, 8, 12},
	{"a patch that fails at other lines", same(14, time.Second, "apply_patch", func(i int) string { return fmt.Sprintf(`{"patch":"@@ -%d @@ x"}`, i) }, func(i int) string {
		return fmt.Sprintf("error: patch failed: a.go:%d\nerror: a.go: patch does not apply", 10+i)
	}), 7, 14},
	{"tests that fail alike after edits that do nothing", func(s *scene) {
		a := s.agent(0).user("Fix it.")
		for i := range 16 {
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":"v%d","new":"v%d"}`, i, i+1), "edited", time.Second).call("bash", `{"command":"go test ./..."}`, "--- FAIL: TestA\n    a_test.go:7: got 1, want 2\nFAIL\nexit status 1", 3*time.Second)
		}
	}, 16, 0},
}

// A loop that begins anew after it was stopped, without a name for its session, is hinted
// before it is stopped again, and both name its tool.
func TestALoopThatBeginsAnewIsHintedFirst(t *testing.T) {
	t.Parallel()
	for _, wire := range wires() {
		t.Run(wire.name, func(t *testing.T) {
			t.Parallel()
			const length = 6
			s := &scene{}
			for run := range 3 {
				a := s.agent(time.Duration(run) * 40 * time.Second).system("You are an agent with tools.").user("Do the task.")
				for range length {
					a.call("bash", `{"command":"cat missing.txt"}`, "cat: missing.txt: No such file or directory", time.Second)
				}
			}
			p := s.play(t, wire)
			for run := range 3 {
				hint, stop := -1, -1
				for _, a := range p.Actions {
					if a.Request/length != run {
						continue
					}
					switch {
					case a.Action >= checkpb.Action_ACTION_REJECT && stop < 0:
						stop = a.Request
					case a.Action == checkpb.Action_ACTION_HINT && hint < 0:
						hint = a.Request
					}
					if a.Action >= checkpb.Action_ACTION_HINT && !strings.Contains(a.Why, "bash") {
						t.Errorf("request %d: %q does not name the tool", a.Request, a.Why)
					}
				}
				if hint < 0 || stop < hint {
					t.Errorf("run %d: hinted at %d and stopped at %d\n%s", run+1, hint, stop, p)
				}
			}
		})
	}
}
