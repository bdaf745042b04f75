package detection

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// circling is a scene of an agent that goes in circles.
type circling struct {
	name string
	play func(*scene)
	// hint and stop are the requests, from 0, by which a hint or a stop has come at the
	// latest; stop is 0 for a scene that is only hinted.
	hint, stop int
}

// Each scene is hinted and stopped in time, in each wire format.
func TestStuckScenes(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(stuckScenes, otherStuckScenes, moreStuckScenes, textStuckScenes) {
		for _, wire := range wires() {
			t.Run(c.name+"/"+wire.name, func(t *testing.T) {
				t.Parallel()
				s := &scene{}
				c.play(s)
				p := s.play(t, wire)
				hint, stop := p.first(checkpb.Action_ACTION_HINT), p.first(checkpb.Action_ACTION_REJECT)
				if hint < 0 || hint > c.hint {
					t.Errorf("hinted at request %d, want %d at the latest\n%s", hint, c.hint, p)
				}
				if c.stop > 0 && (stop < 0 || stop > c.stop) {
					t.Errorf("stopped at request %d, want %d at the latest\n%s", stop, c.stop, p)
				}
			})
		}
	}
}

// same calls one tool n times, with arguments and results that depend on the number.
func same(n int, gap time.Duration, tool string, args, result func(int) string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).system("You are an agent with tools.").user("Do the task.")
		for i := range n {
			a.call(tool, args(i), result(i), gap)
		}
	}
}

func always(text string) func(int) string { return func(int) string { return text } }

func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

var stuckScenes = []circling{
	{"one call with one result", same(8, time.Second, "bash", always(`{"command":"cat missing.txt"}`), always("cat: missing.txt: No such file or directory")), 3, 5},
	{"one call in slow rounds", same(8, 45*time.Second, "read_file", always(`{"path":"a.go"}`), always("package a")), 3, 5},
	{"a result with a clock", same(8, time.Second, "bash", always(`{"command":"make"}`), numbered("12:00:0%d make: *** No rule to make target 'all'.  Stop.")), 3, 5},
	{"a result with a duration", same(9, 2*time.Second, "bash", always(`{"command":"npx jest"}`), numbered("Tests: 1 failed, 4 passed\nTime:        1.13%d s")), 4, 6},
	{"Maven's total time", same(9, 9*time.Second, "bash", always(`{"command":"mvn -q test"}`), numbered("[ERROR] COMPILATION ERROR\n[INFO] Total time:  3.%d s")), 4, 6},
	{"a shell that counts its lines", same(9, time.Second, "bash", always(`{"command":"javac A.java"}`), func(i int) string { return fmt.Sprintf("bash: line %d: javac: command not found", 50776+15*i) }), 4, 6},
	{"A-B-A-B", func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for range 8 {
			a.call("open", `{"page":1}`, "page one", time.Second).call("open", `{"page":2}`, "page two", time.Second)
		}
	}, 8, 12},
	{"a cycle of 5", cycle(5, 6), 20, 25},
	{"a cycle of 32", cycle(32, 5), 90, 130},
	{"the same question, answered each time", func(s *scene) {
		for i := range 8 {
			s.agent(time.Duration(i) * 5 * time.Second).user("Try again.").ask()
		}
	}, 5, 5},
	{"a prompt with a timestamp", func(s *scene) {
		for i := range 10 {
			s.agent(time.Duration(i) * 5 * time.Second).user(fmt.Sprintf("Current time: 2026-03-02T09:00:%02dZ\nPlan the next step of the migration.", 5*i)).ask()
		}
	}, 6, 0},
	{"a history whose rounds repeat", func(s *scene) {
		a := s.agent(0).user("Find the answer.")
		for range 8 {
			a.answer("I will look into that.").user("Go on with the task, please.")
		}
	}, 5, 8},
	{"complaints at 15 seconds a round", complaints(15*time.Second, "Your last reply has no tool call. Reply with exactly one tool call."), 5, 8},
	{"complaints at two minutes a round", complaints(2*time.Minute, "Format error: no command was found in your reply."), 5, 8},
	{"the format is invalid", complaints(5*time.Second, "Invalid Format: Missing 'Action:' after 'Thought:'"), 5, 8},
	{"a JSON retry that counts its attempts", func(s *scene) {
		a := s.agent(0).user("Answer as JSON.")
		for i := range 12 {
			a.answer("Here is the JSON: {name: x}").user(fmt.Sprintf("Attempt %d: the reply is not valid JSON. Try again.", i+1))
		}
	}, 6, 9},
	{"one shell error for other commands", same(14, time.Second, "bash", numbered(`{"command":"python3 -c \"print(%d"}`), always("bash: line 2: unexpected EOF while looking for matching `\"'")), 6, 12},
	{"a tool that does not exist", same(20, time.Second, "search_web", numbered(`{"query":"how to do thing %d"}`), always("Error: tool search_web does not exist")), 6, 14},
	{"an edit that fails in other words", same(16, time.Second, "replace", numbered(`{"path":"a.go","old":"line %d","new":"x"}`), always("Error: 0 occurrences found for old_string. No edits made.")), 6, 14},
	{"an edit applied again while the file grows", same(12, time.Second, "insert", always(`{"path":"a.go","line":10,"text":"import os"}`), func(i int) string { return fmt.Sprintf("The file a.go has been edited. It has %d lines.", 94+13*i) }), 6, 10},
	{"nobody to ask", same(14, time.Second, "ask_user", numbered(`{"question":"Which of the files do you mean, number %d?"}`), always("The user is not available.")), 6, 12},
	{"one picture whose URL is signed anew", batch(10, 5*time.Second, "Is there a defect in this picture?", func(i int) media { return signed("image", 1, i) }), 5, 5},
	{"one screenshot in the message behind the result", shown(8, func(int) media { return page(0) }), 3, 5},
	{"clicks beside the button", func(s *scene) {
		a := s.agent(0).user("Press the button.")
		for i := range 14 {
			a.call("computer", fmt.Sprintf(`{"action":"left_click","coordinate":[%d,%d]}`, 300+3*i, 200+i), "clicked", time.Second, page(0))
		}
	}, 8, 0},
	{"a URL with other parameters", same(14, time.Second, "fetch", numbered(`{"url":"https://example.com/data?try=%d"}`), always("404 Not Found")), 6, 0},
	{"SQL with other aliases", same(12, time.Second, "sql", func(i int) string {
		return fmt.Sprintf(`{"query":"SELECT t%d.name FROM users t%d WHERE t%d.id = 1"}`, i, i, i)
	}, always("[]")), 8, 0},
	{"one page past every cache", same(14, time.Second, "fetch", numbered(`{"url":"https://example.com/data?q=a&try=%d"}`), always("Welcome. Please log in to read the data.")), 6, 0},
	{"one row under other aliases", same(14, time.Second, "sql", func(i int) string {
		return fmt.Sprintf(`{"query":"SELECT t%d.name FROM users t%d WHERE t%d.id = 1"}`, i, i, i)
	}, always("name: Ada Lovelace, mathematician, London")), 6, 0},
	{"windows of a file that overlap", same(24, time.Second, "read_file", func(i int) string {
		return fmt.Sprintf(`{"path":"a.go","offset":%d,"limit":100}`, 100+i%4*10)
	}, func(i int) string { return fmt.Sprintf("lines from %d: func a() {}", 100+i%4*10) }), 16, 0},
	{"sub-agents that redo a task", func(s *scene) {
		a := s.agent(0).system("You lead a team.").user("Have the report written.")
		for i := range 10 {
			a.call("task", fmt.Sprintf(`{"description":"write report, attempt %d","prompt":"Write the report."}`, i+1), "I could not find the data. The report is not written.", 20*time.Second)
		}
	}, 6, 0},
	{"a wrong path by turns", func(s *scene) {
		a := s.agent(0).user("Open the configuration.")
		for range 6 {
			for _, p := range []string{"config.yml", "config.yaml", "conf.yaml"} {
				a.call("read_file", fmt.Sprintf(`{"path":%q}`, p), "ENOENT: no such file or directory", time.Second)
			}
		}
	}, 8, 14},
	{"polls within seconds", same(24, time.Second, "check_job", always(`{"id":"job-7"}`), always(`{"state":"running"}`)), 12, 18},
	{"one call in one growing message", func(s *scene) {
		a := s.agent(0).system("You are an agent with tools.").user("Do the task.")
		for i := range 60 {
			a.step("read_file", fmt.Sprintf(`{"path":"file-%d"}`, i), fmt.Sprintf("what is in file %d", i), time.Second)
		}
		for range 8 {
			a.step("bash", `{"command":"cat missing.txt"}`, "cat: missing.txt: No such file or directory", time.Second)
		}
	}, 63, 65},
	{"a cycle in one growing message", func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for range 8 {
			a.step("open", `{"page":1}`, "page one", time.Second).step("open", `{"page":2}`, "page two", time.Second)
		}
	}, 8, 12},
	{"parallel calls that repeat as a whole", func(s *scene) {
		a := s.agent(0).user("Compare the files.")
		for range 8 {
			a.calls([]call{{"read_file", `{"path":"a"}`}, {"read_file", `{"path":"b"}`}}, []result{{text: "A"}, {text: "B"}}, time.Second)
		}
	}, 4, 6},
	{"bursts of equal requests, over and over", func(s *scene) {
		for i := range 400 {
			s.agent(time.Duration(i/40) * 5 * time.Second).user("Try again.").ask()
		}
	}, 300, 320},
}

// cycle repeats n different rounds for some times.
func cycle(n, times int) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).user("Do the task.")
		for i := range n * times {
			k := i % n
			a.call("step", fmt.Sprintf(`{"name":"%s"}`, strings.Repeat("x", k+1)), strings.Repeat("y", k+1), time.Second)
		}
	}
}

// complaints answers twelve times without a call, and gets the same complaint each time.
func complaints(gap time.Duration, complaint string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).system("You act by tool calls.").user("Repair the build.")
		for i := range 12 {
			a.answer(fmt.Sprintf("I believe the build is repaired now, see remark %d.", i)).wait(gap).user(complaint)
		}
	}
}
