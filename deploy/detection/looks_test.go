package detection

import "time"

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
	{name: "a pool of workers that take 96 samples of one prompt", play: func(s *scene) { workers(s, 8, 12) }},
}

// waits looks at one thing for twenty times.
func waits(name, tool, args, result string, gap time.Duration) honest {
	return honest{"a look at " + name, polls(20, gap, tool, args, result), 4, "it has waited for minutes"}
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
}
