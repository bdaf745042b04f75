package detection

import (
	"fmt"
	"strings"
	"time"
)

var workScenes = []honest{
	{name: "edit, test, edit, test", play: func(s *scene) {
		a := s.agent(0).system("You are a coding agent.").user("Make the tests pass.")
		for i := range 15 {
			a.call("edit", fmt.Sprintf(`{"path":"app.go","old":"step %d","new":"step %d"}`, i, i+1), "The file has been edited.", time.Second)
			a.call("bash", `{"command":"go test ./..."}`, fmt.Sprintf("--- FAIL: TestStep%d\nFAIL", i+1), 8*time.Second)
		}
		a.call("bash", `{"command":"go test ./..."}`, "ok", 8*time.Second).answer("They pass.")
	}},
	{name: "one command after each of many edits, always with success", play: func(s *scene) {
		a := s.agent(0).user("Rename the twenty packages, and keep the build green.")
		for i := range 20 {
			a.call("bash", fmt.Sprintf(`{"command":"git mv old%d new%d"}`, i, i), "", time.Second)
			a.call("bash", `{"command":"go build ./..."}`, "", 5*time.Second)
		}
	}},
	{name: "reading a large file in windows", play: func(s *scene) {
		a := s.agent(0).user("Find the bug in the parser.")
		for i := range 20 {
			a.call("read_file", fmt.Sprintf(`{"path":"parser.go","offset":%d,"limit":100}`, 100*i), fmt.Sprintf("func parse%d() { return node%d }", i, i*i), time.Second)
		}
	}},
	{name: "paging through an API", play: func(s *scene) {
		a := s.agent(0).user("Export all customers.")
		for i := range 30 {
			a.call("list_customers", fmt.Sprintf(`{"cursor":"c%d"}`, i), fmt.Sprintf(`{"customers":["name %d"],"next":"c%d"}`, i, i+1), time.Second)
		}
	}},
	{name: "searches that find nothing", play: func(s *scene) {
		a := s.agent(0).user("Where is the timeout set?")
		for _, word := range strings.Fields("timeout Timeout deadline Deadline maxWait") {
			a.call("grep", fmt.Sprintf(`{"pattern":%q}`, word), "No matches found", time.Second)
		}
		a.call("read_file", `{"path":"config.go"}`, "const wait = 30", time.Second).answer("In config.go.")
	}},
	{name: "an install that fails twice and then works", play: func(s *scene) {
		a := s.agent(0).user("Set the project up.")
		for range 2 {
			a.call("bash", `{"command":"npm install"}`, "npm ERR! network ECONNRESET", 20*time.Second)
		}
		a.call("bash", `{"command":"npm install"}`, "added 120 packages", 30*time.Second).answer("Done.")
	}},
	{name: "parallel calls of one tool", play: func(s *scene) {
		a := s.agent(0).user("Read the twelve files.")
		for i := range 3 {
			var calls []call
			var results []result
			for k := range 4 {
				calls = append(calls, call{"read_file", fmt.Sprintf(`{"path":"%d-%d.go"}`, i, k)})
				results = append(results, result{text: fmt.Sprintf("package p%d%d", i, k)})
			}
			a.calls(calls, results, time.Second)
		}
		a.answer("I have read them.")
	}},
	{name: "a todo list that is written again and again", play: func(s *scene) {
		a := s.agent(0).user("Do the twelve tasks.")
		for i := range 12 {
			a.call("todo_write", fmt.Sprintf(`{"todos":[{"content":"task %d","status":"in_progress"}]}`, i), "Todos have been modified successfully.", time.Second)
		}
	}},
	{name: "writes that all answer ok", play: func(s *scene) {
		a := s.agent(0).user("Insert the forty rows.")
		for i := range 40 {
			a.call("insert_row", fmt.Sprintf(`{"name":"customer %d"}`, i), "ok", time.Second)
		}
	}},
	{name: "a sub-agent for each of ten files", play: func(s *scene) {
		for i := range 10 {
			a := s.agent(time.Duration(i) * 5 * time.Second).system("You review one file.").user(fmt.Sprintf("Review file %d.", i))
			a.call("read_file", fmt.Sprintf(`{"path":"f%d.go"}`, i), fmt.Sprintf("package f%d", i), time.Second).answer("Fine.")
		}
	}},
	{name: "three trials of one task at once", play: func(s *scene) {
		for i := range 3 {
			a := s.agent(time.Duration(i) * time.Second).system("You are a coding agent.").user("Fix issue 12.")
			for k := range 6 {
				a.call("bash", fmt.Sprintf(`{"command":"cat file%d.go"}`, k), fmt.Sprintf("package file%d", k), time.Second)
			}
		}
	}},
	{name: "a formatter that is run before each commit", play: func(s *scene) {
		a := s.agent(0).user("Split the change into eight commits.")
		for i := range 8 {
			a.call("bash", `{"command":"gofmt -l ."}`, "", time.Second).call("bash", fmt.Sprintf(`{"command":"git commit -m 'part %d'"}`, i), fmt.Sprintf("[main %07x] part %d", 99991*i, i), time.Second)
		}
	}},
	{name: "git status between other work", play: func(s *scene) {
		a := s.agent(0).user("Clean the repository up.")
		for i := range 10 {
			a.call("bash", fmt.Sprintf(`{"command":"rm tmp%d"}`, i), "", time.Second).call("bash", `{"command":"git status --short"}`, strings.Repeat("?? tmp\n", 10-i), time.Second)
		}
	}},
	{name: "a bisection", play: func(s *scene) {
		a := s.agent(0).user("Which commit broke it?")
		for i := range 9 {
			a.call("bash", `{"command":"make check && git bisect good || git bisect bad"}`, fmt.Sprintf("Bisecting: %d revisions left to test after this\n[%040x] change %d", 512>>i, 104729*(i+1), i), 9*time.Second)
		}
	}},
}

var chatScenes = []honest{
	{name: "a person who says continue fifteen times", play: func(s *scene) {
		a := s.agent(0).user("Write a long story about a lighthouse.")
		for i := range 15 {
			a.answer(fmt.Sprintf("Chapter %d: the keeper found letter number %d in a bottle, and read it aloud to the gulls.", i, i*i)).wait(30 * time.Second).user("continue")
		}
	}},
	{name: "short answers", play: func(s *scene) {
		a := s.agent(0).user("Quiz me.")
		for i := range 20 {
			a.answer(fmt.Sprintf("Question %d: is %d a prime number?", i, 7*i+3)).wait(8 * time.Second).user([]string{"yes", "no", "yes"}[i%3])
		}
	}},
	{name: "the same question at breakfast, lunch and dinner", play: func(s *scene) {
		for i := range 9 {
			s.agent(time.Duration(i) * 5 * time.Hour).user("What shall I cook?").ask()
		}
	}},
	{name: "a person who tries a prompt again three times", play: func(s *scene) {
		for i := range 3 {
			s.agent(time.Duration(i) * 20 * time.Second).user("Draw an ASCII cat.").ask()
		}
	}},
	{name: "completion while somebody types", play: func(s *scene) {
		text := "func main() { fmt.Println(\"hello, world, and all who live in it\") }"
		for i := range 40 {
			a := s.agent(time.Duration(i) * 400 * time.Millisecond)
			a.think = 200 * time.Millisecond
			a.user("Complete: " + text[:10+i]).ask()
		}
	}},
	{name: "questions about one document", play: func(s *scene) {
		for i := range 20 {
			s.agent(time.Duration(i) * 10 * time.Second).user(strings.Repeat("The contract runs for two years. ", 50) + fmt.Sprintf("\n\nQuestion: what does clause %d say about topic %c?", i, 'A'+i)).ask()
		}
	}},
	{name: "the same request of many users behind one key", play: func(s *scene) {
		for i := range 12 {
			s.agent(time.Duration(i) * 30 * time.Second).user("Good morning! What's on today?").ask()
		}
	}},
}

var gameScenes = []honest{
	{name: "steps of a robot", play: func(s *scene) {
		a := s.agent(0).system("You steer a robot.").user("Go to the kitchen.")
		for i := range 12 {
			a.call("move_forward", `{}`, "ok", time.Second)
			a.call("look", `{}`, fmt.Sprintf("a wall %d cm ahead", 500-40*i), time.Second)
		}
	}},
	{name: "right, up, right", play: func(s *scene) {
		a := s.agent(0).system("You play a game. Answer with a move.").user("You are at (0, 0).")
		for i := range 24 {
			a.answer([]string{"right", "up"}[i%2]).user(fmt.Sprintf("You are at (%d, %d). There is a %s to your left.", (i+2)/2, (i+1)/2, []string{"tree", "stone", "river", "house", "hen"}[i%5]))
		}
	}},
	{name: "a sensor that stays while others change", play: func(s *scene) {
		a := s.agent(0).user("Watch the greenhouse.")
		for i := range 15 {
			a.call("read_sensor", `{"name":"door"}`, "closed", time.Second).call("read_sensor", `{"name":"temperature"}`, fmt.Sprintf("%d.%d °C", 18+i/3, i), 30*time.Second)
		}
	}},
	{name: "turns of a card game", play: func(s *scene) {
		a := s.agent(0).user("Play the hand.")
		for i := range 20 {
			a.call("draw_card", `{}`, fmt.Sprintf("%d of %s", 2+i/3, []string{"hearts", "spades", "clubs"}[i%3]), time.Second)
		}
	}},
}
