package detection

import (
	"fmt"
	"strings"
	"time"
)

// moreScenes are further honest ones: of visitors, runs in step, and batches.
var moreScenes = []honest{
	{name: "a run that is resumed after crashes", play: func(s *scene) {
		a := s.agent(0).user("Port it.")
		for i := range 12 {
			a.call("edit", fmt.Sprintf(`{"path":"f%d.go"}`, i), "edited", time.Second)
			if i%4 == 3 {
				a.ask().wait(30 * time.Second).ask().wait(time.Minute)
			}
		}
	}},
	{name: "branches of a conversation", play: func(s *scene) {
		a := s.agent(0).user("Plan a trip.").call("search", `{"q":"lakes"}`, "lakes: a, b", time.Second).answer("Lake a?")
		base := len(a.conv)
		for i := range 6 {
			a.conv = a.conv[:base:base]
			a.user(fmt.Sprintf("No, something like %s.", names(6)[i])).call("search", `{"q":"lakes"}`, "lakes: a, b", time.Second).answer("Lake b?").wait(20 * time.Second)
		}
	}},
	{name: "two runs of one task in step", play: func(s *scene) {
		for w := range 2 {
			a := s.agent(time.Duration(w) * 100 * time.Millisecond).system("You code.").user("Fix issue 7.")
			for i := range 12 {
				a.call("bash", fmt.Sprintf(`{"command":"cat %s.go"}`, names(12)[i]), "package "+names(12)[i], time.Second)
			}
		}
	}},
	{name: "a build after each of seventy edits", play: func(s *scene) {
		a := s.agent(0).user("Refactor all.")
		for i := range 70 {
			a.call("edit", fmt.Sprintf(`{"path":"%s.go","old":"a","new":"b"}`, names(70)[i]), "edited", time.Second).call("bash", `{"command":"go build ./... && go vet ./..."}`, "", 4*time.Second)
		}
	}},
	{name: "git status after each edit", play: func(s *scene) {
		a := s.agent(0).user("Polish a.go.")
		for i := range 14 {
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":"l%d","new":"m%d"}`, i, i), "edited", time.Second).call("bash", `{"command":"git status --short"}`, " M a.go", time.Second)
		}
	}},
	{name: "containers that start within seconds", play: func(s *scene) {
		a := s.agent(0).user("Start it.")
		a.think = time.Second
		a.call("bash", `{"command":"docker compose up -d"}`, "started", time.Second)
		for range 8 {
			a.call("bash", `{"command":"docker compose ps"}`, "app starting", time.Second)
		}
		a.call("bash", `{"command":"docker compose ps"}`, "app up", time.Second).answer("It is up.")
	}},
	{name: "tasks that all say done", play: func(s *scene) {
		a := s.agent(0).user("Have all modules reviewed.")
		for i := range 12 {
			a.call("task", fmt.Sprintf(`{"description":"review","prompt":"Review the module %s and fix what is wrong with it."}`, names(12)[i]), "Done.", 30*time.Second)
		}
	}},
	{name: "tasks that all say the same report", play: func(s *scene) {
		a := s.agent(0).user("Have all modules reviewed.")
		for i := range 8 {
			a.call("task", fmt.Sprintf(`{"description":"review %s","prompt":"Review the module %s and fix what is wrong with it."}`, names(8)[i], names(8)[i]), "I reviewed the module and found nothing that is wrong with it.", 30*time.Second)
		}
	}},
	{name: "a long question about one lake after the other", play: func(s *scene) {
		a := s.agent(0).user("I plan a holiday at a lake.")
		for i := range 10 {
			a.answer("It is deep and cold, and people like to swim in it in summer.").wait(10 * time.Second).user(fmt.Sprintf("And how deep is the lake of %s, how cold is the water in summer, and may people with dogs swim in it?", names(10)[i]))
		}
		a.ask()
	}},
	{name: "timeouts that pass", play: func(s *scene) {
		a := s.agent(0).user("Load the six tables.")
		for i := range 6 {
			c := fmt.Sprintf(`{"table":"t%d"}`, i)
			a.call("load", c, "Error: timeout", 5*time.Second).call("load", c, "Error: timeout", 8*time.Second).call("load", c, fmt.Sprintf("%d rows", 100*i+7), time.Second)
		}
	}, hints: 0},
	{name: "eight dead links", play: func(s *scene) {
		a := s.agent(0).user("Which of the links are dead?")
		for i := range 8 {
			a.call("fetch", fmt.Sprintf(`{"url":"https://%s.example.com/"}`, names(8)[i]), "404 Not Found", time.Second)
		}
		a.call("report", `{"dead":8}`, "ok", time.Second)
	}, hints: 4, nod: "all fail"},
	{name: "three equal calls at once", play: func(s *scene) {
		a := s.agent(0).user("Throw three dice, five times.")
		for i := range 5 {
			a.calls([]call{{"throw", `{}`}, {"throw", `{}`}, {"throw", `{}`}}, []result{{text: fmt.Sprint(1 + i)}, {text: fmt.Sprint(1 + i*5%6)}, {text: "3"}}, time.Second)
		}
	}, hints: 1, nod: "three of one call at once"},
	{name: "the weather of many towns", play: func(s *scene) {
		a := s.agent(0).user("Where is it sunny?")
		for i := range 14 {
			a.call("get_weather", fmt.Sprintf(`{"city":%q}`, names(14)[i]), `{"weather":"sunny","wind":"calm"}`, time.Second)
		}
	}},
	{name: "one word in many languages", play: func(s *scene) {
		for i := range 20 {
			s.agent(time.Duration(i) * time.Second).user("Translate 'stop' into " + strings.Fields("French German Dutch Danish Swedish Finnish Polish Czech Greek Irish Welsh Basque Latin Thai Hindi Urdu Farsi Zulu Xhosa Maori")[i] + ".").ask()
		}
	}},
	{name: "automatic continue", play: func(s *scene) {
		a := s.agent(0).user("Write the whole novel.")
		a.think = 20 * time.Second
		for i := range 12 {
			a.answer(fmt.Sprintf("Part %d: %s and then %s went to %s.", i, names(40)[i], names(40)[i+12], names(40)[i+25])).user("Continue exactly where you left off.")
		}
	}},
	{name: "tests that fail one by one", play: func(s *scene) {
		a := s.agent(0).user("Which tests fail?")
		for i := range 10 {
			a.call("bash", fmt.Sprintf(`{"command":"go test -run Test%s ./..."}`, names(10)[i]), fmt.Sprintf("--- FAIL: Test%s (0.00s)\n    a_test.go:%d: wrong %s\nFAIL\nexit status 1", names(10)[i], 17*i, names(10)[i]), 2*time.Second)
		}
	}, hints: 5, nod: "all fail"},
	{name: "compiler errors one by one", play: func(s *scene) {
		a := s.agent(0).user("Make it compile.")
		for i := range 14 {
			a.call("bash", `{"command":"go build ./..."}`, fmt.Sprintf("./a.go:%d:2: undefined: %s\nexit status 1", 10+i*3, names(14)[i]), 2*time.Second)
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":%q,"new":"x"}`, names(14)[i]), "edited", time.Second)
		}
	}},
	{name: "a remote shell that is asked for a prompt", play: polls(15, 22*time.Second, "read_terminal", `{"id":"t1"}`, "$ installing..."), hints: 4, nod: "waits"},
	{name: "emails that are archived", play: func(s *scene) {
		a := s.agent(0).user("Archive the newsletters.")
		for i := range 25 {
			a.call("archive_email", fmt.Sprintf(`{"id":"%06x"}`, 7919*i+13), `{"status":"archived"}`, time.Second)
		}
	}},
	{name: "points of a line", play: func(s *scene) {
		a := s.agent(0).user("Draw a line.")
		for i := range 30 {
			a.call("set_pixel", fmt.Sprintf(`{"x":%d,"y":10}`, i), "ok", 200*time.Millisecond)
		}
	}},
	{name: "a sensor that is read on demand", play: func(s *scene) {
		a := s.agent(0).user("Read the sensor for ten minutes, each 20 seconds.")
		for i := range 30 {
			a.call("read_sensor", `{"name":"t"}`, fmt.Sprintf("%d.0 °C", 20+i/9), 16*time.Second)
		}
	}, hints: 6, nod: "it waits"},
	{name: "visitors who say hi, with sessions", play: func(s *scene) {
		for i := range 40 {
			a := s.agent(time.Duration(i) * 4 * time.Second).named(fmt.Sprint("u", i)).system("You help.").user("hi")
			a.answer("Hello! How can I help?").wait(3 * time.Second).user(fmt.Sprintf("My %s is broken.", names(40)[i])).answer("I see.")
		}
	}},
	{name: "visitors who say hi", play: func(s *scene) {
		for i := range 40 {
			a := s.agent(time.Duration(i) * 4 * time.Second).system("You help.").user("hi")
			a.answer("Hello! How can I help?").wait(3 * time.Second).user(fmt.Sprintf("My %s is broken.", names(40)[i])).answer("I see.")
		}
	}},
	{name: "visitors who say hi, and then no", play: func(s *scene) {
		for i := range 40 {
			a := s.agent(time.Duration(i) * 12 * time.Second).system("You help.").user("hi")
			a.answer("Hello! Can I show you our offers?").wait(3 * time.Second).user("no").answer("Alright. Anything else?").wait(4 * time.Second).user(fmt.Sprintf("Where is my order %d?", i*37+1000)).answer("Under way.")
		}
	}},
}
