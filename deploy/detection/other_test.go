package detection

import (
	"fmt"
	"strings"
	"time"
)

// lookScenes wait for something with calls that no name tells to be polls. A hint says how
// long they have waited.
var lookScenes = []honest{
	waits("a stack that is created", "bash", `{"command":"aws cloudformation describe-stacks --stack-name x --query 'Stacks[0].StackStatus'"}`, `"CREATE_IN_PROGRESS"`, 30*time.Second),
	waits("a batch system", "bash", `{"command":"squeue -u me"}`, "JOBID STATE\n77 PENDING", time.Minute),
	waits("a folder that is empty as yet", "bash", `{"command":"ls out/"}`, "", time.Minute),
	waits("a file that another program makes", "bash", `{"command":"test -f /tmp/done && echo yes || echo no"}`, "no", 30*time.Second),
	waits("a log that stands still", "read_file", `{"path":"build.log"}`, "compiling step 1", 40*time.Second),
	waits("a task in the background", "TaskOutput", `{"task_id":"b7","block":true,"timeout":30000}`, "<status>running</status>", 30*time.Second),
	waits("an order that is paid", "get_order", `{"id":77}`, `{"id":77,"state":"paid"}`, 45*time.Second),
	waits("a row of a table", "sql", `{"query":"SELECT state FROM jobs WHERE id = 7"}`, "running", 30*time.Second),
	{name: "a program that sleeps, and a look", play: func(s *scene) {
		a := s.agent(0).user("Wait until the report is ready.")
		for range 20 {
			a.call("python", `{"code":"import time; time.sleep(30)"}`, "", 30*time.Second).call("bash", `{"command":"cat result.txt"}`, "pending", time.Second)
		}
	}, hints: 3, nod: "it has waited for minutes"},
	{name: "a browser that waits, and a snapshot", play: func(s *scene) {
		a := s.agent(0).user("Wait until the report is ready.")
		for range 20 {
			a.call("browser_wait_for", `{"time":30}`, "Waited for 30", 30*time.Second).call("browser_snapshot", `{}`, "- button Export [disabled]", time.Second)
		}
	}, hints: 3, nod: "it has waited for minutes"},
	{name: "windows of a file that overlap and go on", play: func(s *scene) {
		a := s.agent(0).user("Understand the file.")
		for i := range 20 {
			a.call("read_file", fmt.Sprintf(`{"path":"big.c","offset":%d,"limit":100}`, i*60), linesOf(i*60, 100), time.Second)
		}
	}},
	{name: "parts of a file that was read, each before its edit", play: func(s *scene) {
		a := s.agent(0).user("Refactor the file.").call("read_file", `{"path":"big.c"}`, linesOf(0, 400), time.Second)
		for i := range 8 {
			a.call("read_file", fmt.Sprintf(`{"path":"big.c","offset":%d,"limit":50}`, i*45), linesOf(i*45, 50), time.Second)
			a.call("edit_file", fmt.Sprintf(`{"path":"big.c","old":"func line%d","new":"x"}`, i*45), "edited", time.Second)
		}
	}},
	{name: "the imports of many modules, each with an error of its own", play: func(s *scene) {
		a := s.agent(0).user("Fix the imports in all modules.")
		for i := range 9 {
			a.call("edit_file", fmt.Sprintf(`{"path":"m%d.py","old":"import a","new":"import b"}`, i), "ok", time.Second)
			a.call("bash", fmt.Sprintf(`{"command":"python m%d.py"}`, i), fmt.Sprintf("Traceback (most recent call last):\n  File \"m%d.py\", line %d\nNameError: name 'x%d' is not defined", i, i, i), time.Second)
		}
	}},
	eachOf("services that are restarted", "bash", `{"command":"systemctl restart %s"}`, ""),
	eachOf("rooms whose mode is set", "set_mode", `{"room":"%s","mode":"eco"}`, `{"success":true}`),
	eachOf("chapters that are converted", "convert", `{"file":"chapters/%s.md","to":"html"}`, "The chapter is converted."),
	{name: "a pool of workers that take 96 samples of one prompt", play: func(s *scene) { workers(s, 8, 12) }},
}

// waits looks at one thing for twenty times.
func waits(name, tool, args, result string, gap time.Duration) honest {
	return honest{"a look at " + name, polls(20, gap, tool, args, result), 4, "it has waited for minutes"}
}

// linesOf returns lines of a file.
func linesOf(from, n int) string {
	var b strings.Builder
	for i := from; i < from+n; i++ {
		fmt.Fprintf(&b, "%6d\tfunc line%d(a int) int { return a + %d }\n", i+1, i, i*i)
	}
	return b.String()
}

// eachOf does the same with each of some names.
func eachOf(name, tool, args, result string) honest {
	return honest{name: name, play: func(s *scene) {
		a := s.agent(0).user("Do it for each of them.")
		for of := range strings.FieldsSeq("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu") {
			a.call(tool, fmt.Sprintf(args, of), result, 2*time.Second)
		}
	}}
}

// workers send one prompt n times each, so that it is always in flight.
func workers(s *scene, count, n int) {
	for i := range count {
		a := s.agent(time.Duration(i) * 500 * time.Millisecond).user("What is the weather in Lima?")
		for range n {
			a.ask()
		}
	}
}

// otherStuckScenes are agents that go in circles with other tools and words.
var otherStuckScenes = []circling{
	{"two workers that send one prompt for ever", func(s *scene) { workers(s, 2, 60) }, 96, 96},
	{"a look at one thing within seconds", same(8, time.Second, "get_order", always(`{"id":77}`), always(`{"id":77,"state":"paid"}`)), 3, 5},
	{"complaints in German", complaints(15*time.Second, "Deine Antwort enthält keinen Werkzeugaufruf. Bitte rufe genau ein Werkzeug auf."), 5, 8},
	{"complaints about a function", complaints(time.Minute, "I couldn't find a function call in that. Please respond with one of the provided functions."), 5, 8},
	{"a nudge to go on alone", complaints(15*time.Second, "Please continue on whatever approach you think is suitable.\nIMPORTANT: YOU SHOULD NEVER ASK FOR HUMAN RESPONSE."), 5, 8},
	{"a validator", complaints(15*time.Second, "1 validation error for Plan\nsteps\n  Field required [type=missing]"), 5, 8},
	{"a schema, slowly", complaints(40*time.Second, "Your output did not match the required schema: missing property \"steps\"."), 5, 8},
	{"JSON that is tried again", func(s *scene) {
		a := s.agent(0).user("Answer as JSON.")
		for i := range 12 {
			a.answer(fmt.Sprintf("{name: x%d}", i)).user(fmt.Sprintf("Retry %d/20: could not parse JSON: expecting property name enclosed in double quotes", i+1))
		}
	}, 6, 9},
	{"one error of PowerShell for other commands", same(16, time.Second, "powershell", numbered(`{"command":"Foo-Bar%d"}`), numbered("Foo-Bar%[1]d : The term 'Foo-Bar%[1]d' is not recognized as the name of a cmdlet.")), 6, 12},
	{"one error of dash for other commands", same(16, time.Second, "shell", numbered(`{"cmd":"echo \"it%d"}`), numbered("sh: %d: Syntax error: Unterminated quoted string")), 6, 12},
	{"files that may not be written", same(16, time.Second, "write_file", numbered(`{"path":"/etc/a%[1]d","content":"%[1]d"}`), numbered("EACCES: permission denied, open '/etc/a%d'")), 6, 12},
	{"JUnit's time", same(9, 3*time.Second, "bash", always(`{"command":"java org.junit.runner.JUnitCore T"}`), numbered("JUnit version 4.12\n.E\nTime: 0.01%d\nThere was 1 failure:")), 4, 6},
	{"PHPUnit's time", same(9, 3*time.Second, "bash", always(`{"command":"phpunit"}`), numbered("F\n\nTime: 00:00.01%d, Memory: 6.00 MB\n\nThere was 1 failure:")), 4, 6},
	{"minitest's rates", same(9, 3*time.Second, "bash", always(`{"command":"rake test"}`), numbered("Finished in 0.00123%[1]ds, 161%[1]d.7455 runs/s, 161%[1]d.7455 assertions/s.\n2 runs, 1 failures")), 4, 6},
	{"a container that does not start", same(9, 3*time.Second, "bash", always(`{"command":"docker run app"}`), func(i int) string {
		return fmt.Sprintf("docker: Error response from daemon: failed to create task for container %064x: exec: \"app\": not found", 7919*(i+1))
	}), 4, 6},
	{"a line appended again", same(14, time.Second, "bash", always(`{"command":"cat >> a.py <<'E'\nimport os\nE\nwc -l a.py"}`), numbered("9%d a.py")), 6, 10},
	{"a line inserted again by sed", same(14, time.Second, "bash", always(`{"command":"sed -i '10i import os' a.py && wc -l a.py"}`), numbered("9%d a.py")), 6, 10},
	{"one mail sent again", same(14, time.Second, "send_email", always(`{"to":"a@example.com","body":"Hello"}`), func(i int) string { return fmt.Sprintf(`{"id":"m-%06d","status":"queued"}`, 7919*i) }), 6, 10},
	{"a question to a user who is not there", same(14, time.Second, "request_user_input", numbered(`{"prompt":"Do you prefer variant %d?"}`), always("request_user_input is unavailable in this mode")), 6, 12},
	{"a page by links that say where the visitor is from", same(14, time.Second, "fetch", numbered(`{"url":"https://example.com/data?utm_source=a%d"}`), always("Welcome. Please log in to read the data.")), 6, 0},
	{"a sub-agent told in other words", func(s *scene) {
		a := s.agent(0).user("Have it written.")
		for i := range 12 {
			a.call("spawn_agent", fmt.Sprintf(`{"role":"writer","message":"%s write the report about the third quarter."}`, []string{"Please", "Kindly", "Now", "Again,", "Once more,", "Finally"}[i%6]), "I could not find the data, so the report was not written.", 20*time.Second)
		}
	}, 8, 0},
	{"windows of a file that was read", func(s *scene) {
		a := s.agent(0).user("Find the bug.").call("read_file", `{"path":"big.c"}`, linesOf(0, 300), time.Second)
		for i := range 16 {
			from := i * 37 % 200
			a.call("read_file", fmt.Sprintf(`{"path":"big.c","offset":%d,"limit":%d}`, from, 60+i), linesOf(from, 60+i), time.Second)
		}
	}, 7, 0},
	{"windows of a file in a shell", func(s *scene) {
		a := s.agent(0).user("Find the bug.").call("bash", `{"command":"cat -n big.c"}`, linesOf(0, 300), time.Second)
		for i := range 16 {
			from := i * 53 % 200
			a.call("bash", fmt.Sprintf(`{"command":"sed -n '%d,%dp' big.c"}`, from, from+60+i), linesOf(from, 60+i), time.Second)
		}
	}, 7, 0},
	{"a cycle of 40", cycle(40, 4), 60, 0},
}
