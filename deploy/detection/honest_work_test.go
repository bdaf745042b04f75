package detection

import (
	"fmt"
	"strings"
	"time"
)

var workScenes = []honest{
	{name: "all steps in one growing message", play: func(s *scene) {
		a := s.agent(0).user("Port the package.")
		for i := range 40 {
			a.step("edit", fmt.Sprintf(`{"path":"file-%d.go"}`, i), "ok", 2*time.Second).step("bash", `{"command":"go build ./..."}`, "", 2*time.Second)
		}
	}},
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
		for word := range strings.FieldsSeq("timeout Timeout deadline Deadline maxWait") {
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
	{name: "links, some of them dead", play: func(s *scene) {
		a := s.agent(0).user("Check the links of the site.")
		for i := range 40 {
			status := "200 OK"
			if i%3 == 1 {
				status = "404 Not Found"
			}
			a.call("head", fmt.Sprintf(`{"url":"https://example.com/page/%d"}`, i), status, time.Second)
		}
	}},
	{name: "names that are all taken", play: func(s *scene) {
		a := s.agent(0).user("Find a free name for the package.")
		for name := range strings.FieldsSeq("otter badger heron marten lynx stoat plover siskin wren dipper") {
			a.call("lookup", fmt.Sprintf(`{"name":%q}`, name), fmt.Sprintf(`{"name":%q,"owner":%q}`, name, name+"-team"), time.Second)
		}
	}},
	{name: "rows that are updated one by one", play: func(s *scene) {
		a := s.agent(0).user("Set the country of the thirty customers.")
		for i := range 30 {
			a.call("sql", fmt.Sprintf(`{"query":"UPDATE customers SET country = 'NL' WHERE id = %d"}`, 100+i), "1 row affected", time.Second)
		}
	}},
	{name: "a page of search results after the other", play: func(s *scene) {
		a := s.agent(0).user("Collect the offers.")
		for i := range 15 {
			a.call("fetch", fmt.Sprintf(`{"url":"https://example.com/offers?page=%d"}`, i+1), fmt.Sprintf("Offer %c: a house with a garden in street %d.", 'A'+i, i*i), time.Second)
		}
	}},
	{name: "scrolling down a page", play: func(s *scene) {
		a := s.agent(0).user("Read the article.")
		for i := range 12 {
			a.call("scroll", `{"direction":"down"}`, fmt.Sprintf("Paragraph %d: the river turns %s of village %c.", i, []string{"east", "west", "north"}[i%3], 'A'+i), time.Second)
		}
	}},
	{name: "undo, undo, undo", play: func(s *scene) {
		a := s.agent(0).user("Take back the last six edits.")
		for i := range 6 {
			a.call("undo_edit", `{"path":"a.go"}`, fmt.Sprintf("Last edit to a.go undone: version %d", 9-i), time.Second)
		}
	}},
	{name: "a test suite for each of ten mutants", play: func(s *scene) {
		a := s.agent(0).user("Which mutants survive?")
		for i := range 10 {
			a.call("apply_mutant", fmt.Sprintf(`{"id":%d}`, i), "applied", time.Second)
			a.call("run_tests", `{}`, []string{"killed by TestParse", "killed by TestFormat", "survived"}[i%3], 5*time.Second)
			a.call("revert", `{}`, "clean", time.Second)
		}
	}},
	{name: "thoughts between calls", play: func(s *scene) {
		a := s.agent(0).user("Refactor the module.")
		for i := range 12 {
			a.call("think", fmt.Sprintf(`{"thought":"part %d uses part %d"}`, i, i+1), "Your thought has been logged.", time.Second)
			a.call("edit", fmt.Sprintf(`{"path":"part%d.go"}`, i), "The file has been edited.", time.Second)
		}
	}},
	{name: "memory that is read at each step", play: func(s *scene) {
		a := s.agent(0).user("Follow the plan.")
		for i := range 8 {
			a.call("read_memory", `{"key":"plan"}`, fmt.Sprintf("next: step %d", i), time.Second).call("do_step", fmt.Sprintf(`{"step":%d}`, i), fmt.Sprintf("step %d is done", i), time.Second)
		}
	}},
	{name: "a plan that is read before each of five steps", play: func(s *scene) {
		a := s.agent(0).user("Follow the plan in PLAN.md.")
		for i := range 5 {
			a.call("read_file", `{"path":"PLAN.md"}`, "1. parse 2. check 3. emit 4. test 5. ship", time.Second)
			for k := range 3 {
				a.call("edit", fmt.Sprintf(`{"path":"step%d.go","part":%d}`, i, k), fmt.Sprintf("edited %d lines", 3*i+k), time.Second)
			}
		}
	}, hints: 2, nod: "the plan has not changed"},
	{name: "one tool for many customers at once", play: func(s *scene) {
		for i := range 20 {
			a := s.agent(time.Duration(i) * time.Second).named(fmt.Sprint("customer-", i)).system("You are a support agent.").user("Where is my parcel?")
			a.call("track", fmt.Sprintf(`{"parcel":%d}`, 5000+i), "in transit", time.Second).answer("It is on its way.")
		}
	}},
	{name: "a server that is restarted after each fix", play: func(s *scene) {
		a := s.agent(0).user("Get the server up.")
		for i := range 6 {
			a.call("bash", `{"command":"systemctl restart app"}`, "", 2*time.Second)
			a.call("bash", `{"command":"journalctl -u app -n 1"}`, fmt.Sprintf("app: missing setting %s", strings.Fields("PORT HOST DSN KEY REGION none")[i]), time.Second)
			a.call("edit", fmt.Sprintf(`{"path":"app.env","line":%d}`, i), "edited", time.Second)
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
	{name: "a person who complains about each new answer", play: func(s *scene) {
		a := s.agent(0).user("Write a slogan for a bakery.")
		for i := range 7 {
			a.answer([]string{"Fresh every day.", "Our oven never sleeps.", "Bread with a past.", "Rise with us.", "Crust in us.", "The upper crust.", "Knead we say more?", "Loaf at first sight."}[i]).wait(20 * time.Second).user("Another one, please.")
		}
	}},
	{name: "a drill of words", play: func(s *scene) {
		a := s.agent(0).system("You drill vocabulary.").user("Begin.")
		for i := range 20 {
			a.answer(fmt.Sprintf("Word %d: what is %q in French?", i, strings.Fields("bread milk house tree river stone bird cloud rain snow wind fire sand salt gold iron wood glass paper ink")[i])).wait(6 * time.Second).user("I don't know.")
		}
	}},
	{name: "a voice assistant that hears ok", play: func(s *scene) {
		a := s.agent(0).system("You are a voice assistant that reads a recipe step by step.").user("Begin.")
		for i := range 14 {
			a.answer(fmt.Sprintf("Step %d: add %d grams of flour, and stir for %d minutes.", i+1, 40*i+15, i+2)).wait(45 * time.Second).user("ok")
		}
	}},
	{name: "a conversation that is regenerated four times", play: func(s *scene) {
		a := s.agent(0).user("Name a book about the sea.").answer("Moby-Dick.").user("Another.")
		for range 4 {
			a.ask().wait(20 * time.Second)
		}
	}},
	{name: "one prompt at five temperatures", play: func(s *scene) {
		for i := range 5 {
			s.agent(time.Duration(i) * 4 * time.Second).user("Write a limerick.").ask()
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
	{name: "a maze with corridors that look alike", play: func(s *scene) {
		a := s.agent(0).user("Leave the maze.")
		for i := range 20 {
			a.call("go", fmt.Sprintf(`{"direction":%q}`, strings.Fields("north north east north west")[i%5]), fmt.Sprintf("You are in a corridor. On the wall is the letter %c.", 'A'+i), time.Second)
		}
	}},
	{name: "dice that are thrown twenty times", play: func(s *scene) {
		a := s.agent(0).user("Throw the die twenty times, and count.")
		for i := range 20 {
			a.call("throw", fmt.Sprintf(`{"throw":%d}`, i), fmt.Sprint(1+i*i%7%6), time.Second)
		}
	}},
	{name: "turns of a card game", play: func(s *scene) {
		a := s.agent(0).user("Play the hand.")
		for i := range 20 {
			a.call("draw_card", `{}`, fmt.Sprintf("%d of %s", 2+i/3, []string{"hearts", "spades", "clubs"}[i%3]), time.Second)
		}
	}},
}
