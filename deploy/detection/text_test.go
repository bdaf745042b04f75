package detection

import (
	"fmt"
	"strings"
	"time"
)

// shellRules are the instructions of an agent that writes its commands in fences.
const shellRules = "You act in a shell. Each reply has exactly one command in a fence:\n```bash\nyour_command\n```\nYou get its output."

// reactRules are those of an agent that writes its actions in lines.
const reactRules = "Answer with the tools search, read and finish. Use this form:\nThought: what to do\nAction: the tool\nAction Input: its input\nObservation: the result"

// fenced runs n commands that an agent writes in fences, each with its output.
func fenced(n int, gap time.Duration, command, output func(int) string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).system(shellRules).user("Repair the build.")
		for i := range n {
			a.answer(fmt.Sprintf("Step %d.\n```bash\n%s\n```", i+1, command(i))).wait(gap).user(fmt.Sprintf("<returncode>%d</returncode>\n<output>\n%s\n</output>", 2*count(strings.HasPrefix(output(i), "bash: ")), output(i)))
		}
		a.ask()
	}
}

// acting runs n actions that an agent writes in lines, each with its observation.
func acting(n int, gap time.Duration, tool string, input, output func(int) string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).system(reactRules).user("Who designed the bridge?")
		for i := range n {
			a.answer(fmt.Sprintf("Thought: I look for part %d.\nAction: %s\nAction Input: %s", i, tool, input(i))).wait(gap).user("Observation: " + output(i))
		}
		a.ask()
	}
}

// textScenes are agents that write their actions as text.
var textScenes = []honest{
	{name: "edits and tests in fences", play: fenced(30, 3*time.Second, func(i int) string {
		return []string{fmt.Sprintf("sed -i 's/a%d/b%d/' app.go", i, i), "go test ./..."}[i%2]
	}, func(i int) string { return []string{"", fmt.Sprintf("--- FAIL: TestStep%d\nFAIL", i)}[i%2] })},
	{name: "commands in fences that say nothing", play: fenced(14, 2*time.Second, func(i int) string { return "mkdir -p " + names(14)[i] }, always(""))},
	{name: "a build that is watched in fences", play: fenced(20, 40*time.Second, always("gh run view 123 --json status"), always(`{"status":"in_progress"}`)), hints: 5, nod: "it has waited for minutes"},
	{name: "a sleep and a look in fences", play: fenced(20, 31*time.Second, always("sleep 30; cat build.status"), always("building")), hints: 5, nod: "it has waited for minutes"},
	{name: "a server that starts, in fences", play: fenced(12, 11*time.Second, always("curl localhost:8080/health"), always("curl: (7) Failed to connect to localhost port 8080: Connection refused")), hints: 5, nod: "it has waited for minutes"},
	{name: "files in fences", play: fenced(20, 2*time.Second, func(i int) string { return fmt.Sprintf("cat src/%s.go", names(20)[i]) }, func(i int) string { return linesOf(40*i, 30) })},
	{name: "greps in fences that find nothing", play: fenced(9, 2*time.Second, func(i int) string { return fmt.Sprintf("grep -rn %s .", names(9)[i]) }, always("")), hints: 2, nod: "nothing is found"},
	{name: "commits in fences", play: fenced(16, 2*time.Second, func(i int) string {
		return []string{"git add -A", fmt.Sprintf("git commit -qm %q", names(16)[i])}[i%2]
	}, always(""))},
	{name: "a benchmark in fences", play: fenced(8, 5*time.Second, always("./bench"), func(i int) string { return fmt.Sprintf("elapsed: 1.%03d s", i*137%1000) })},
	{name: "searches in lines", play: acting(14, 2*time.Second, "search", func(i int) string { return "bridge " + names(14)[i] }, func(i int) string { return fmt.Sprintf("Page %d about %s.", i, names(14)[i]) })},
	{name: "sums in lines that are all zero", play: acting(12, time.Second, "calculate", func(i int) string { return fmt.Sprintf("%d * 0", 17*i+5) }, always("0"))},
	{name: "rows in lines", play: acting(12, time.Second, "insert", func(i int) string { return fmt.Sprintf(`{"name":%q}`, names(12)[i]) }, always("ok"))},
	{name: "lessons with code in fences", play: func(s *scene) {
		a := s.agent(0).user("Teach me Go.")
		for i := range 15 {
			a.answer(fmt.Sprintf("Lesson %d:\n```go\nfmt.Println(%d)\n```\nWhat does it print?", i, i*i)).wait(15 * time.Second).user([]string{"I don't know.", fmt.Sprint(i * i)}[i%2])
		}
	}},
	{name: "a person who runs what the model says", play: func(s *scene) {
		a := s.agent(0).user("My disk is full.")
		for i := range 8 {
			a.answer(fmt.Sprintf("Run this:\n```bash\ndu -sh /var/%s\n```", names(8)[i])).wait(40 * time.Second).user(fmt.Sprintf("%d.%dG /var/%s", i, i, names(8)[i]))
		}
	}},
	{name: "moves of a game in text", play: func(s *scene) {
		a := s.agent(0).system("You play a game. Reply with one action: north, south, east, west, look or take.").user("You are in a hall.")
		for i := range 30 {
			a.answer(strings.Fields("look north look east look south")[i%6]).wait(time.Second).user(fmt.Sprintf("You are in room %d. Exits: north, east.", i*7%11))
		}
	}},
}

// textStuckScenes are those that go in circles.
var textStuckScenes = []circling{
	{"one command in fences", fenced(12, 2*time.Second, always("cat missing.txt"), always("cat: missing.txt: No such file or directory")), 4, 8},
	{"one command in fences that says nothing", fenced(12, 2*time.Second, always("python fix.py"), always("")), 4, 8},
	{"two commands in fences by turns", fenced(20, 2*time.Second, func(i int) string { return []string{"cat a", "cat b"}[i%2] }, func(i int) string { return []string{"A", "B"}[i%2] }), 8, 14},
	{"one shell error in fences", fenced(20, 2*time.Second, numbered("python3 -c \"print(%d"), always("bash: line 2: unexpected EOF while looking for matching `\"'")), 7, 14},
	{"a tool in lines that does not exist", acting(20, 2*time.Second, "lookup", func(i int) string { return "bridge " + names(20)[i] }, always("lookup is not a valid tool, try one of [search, read, finish].")), 8, 16},
	{"one action in lines", acting(12, 2*time.Second, "search", always("bridge"), always("No page found.")), 4, 8},
	{"a block that does not match", func(s *scene) {
		a := s.agent(0).system("Edit files with SEARCH/REPLACE blocks.").user("Rename the function.")
		for i := range 20 {
			a.answer(fmt.Sprintf("I try it once more, variant %d.\n\na.py\n```python\n<<<<<<< SEARCH\ndef f(x):%s\n=======\ndef g(x):\n>>>>>>> REPLACE\n```", i, strings.Repeat(" ", i%5))).wait(2 * time.Second).
				user("# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in a.py")
		}
	}, 9, 16},
	{"a wrong form of action", complaints(2*time.Second, "Please always provide EXACTLY ONE action in triple backticks, found 0 actions."), 5, 8},
}
