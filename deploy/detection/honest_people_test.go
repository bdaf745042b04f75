package detection

import (
	"fmt"
	"strings"
	"time"
)

// peopleScenes have people who talk to an assistant, play, or work beside one.
var peopleScenes = []honest{
	{name: "a game in the fog", play: func(s *scene) {
		a := s.agent(0).user("Find the way out of the fog.")
		for i := range 24 {
			a.call("move", fmt.Sprintf(`{"direction":%q}`, strings.Fields("north east north west south east")[i%6]), fmt.Sprintf("You are at (%d,%d). You see nothing but fog.", i*3%7, i), time.Second)
		}
	}},
	{name: "fields of a minefield", play: func(s *scene) {
		a := s.agent(0).user("Play.")
		for i := range 30 {
			a.call("reveal", fmt.Sprintf(`{"row":%d,"col":%d}`, i/6, i%6), "0", time.Second)
		}
	}},
	{name: "moves of chess against a program", play: func(s *scene) {
		a := s.agent(0).user("Play white.")
		for i := range 24 {
			a.call("move", fmt.Sprintf(`{"uci":"%c%d%c%d"}`, 'a'+i%8, 2+i%6, 'a'+(i+1)%8, 3+i%6), fmt.Sprintf("Engine plays %c%d%c%d", 'h'-i%8, 7-i%6, 'g'-i%7, 6-i%5), time.Second)
		}
	}},
	{name: "a text adventure", play: func(s *scene) {
		a := s.agent(0).user("Play the game.")
		for i := range 16 {
			if i%4 == 3 {
				a.call("act", fmt.Sprintf(`{"command":"go %s"}`, strings.Fields("north east south west")[i/4]), fmt.Sprintf("You enter room %c. It is dark.", 'A'+i), time.Second)
			} else {
				a.call("act", fmt.Sprintf(`{"command":"%s"}`, strings.Fields("look inventory search")[i%4]), strings.Split("It is dark.|You carry a lamp.|You find nothing.", "|")[i%4], time.Second)
			}
		}
	}, hints: 0},
	{name: "a model that thinks for ten minutes at a time", play: func(s *scene) {
		a := s.agent(0).user("Prove it.")
		a.think = 10 * time.Minute
		for i := range 12 {
			a.call("read_file", `{"path":"notes.md"}`, "1. lemma 2. proof", time.Second).call("write_file", fmt.Sprintf(`{"path":"lemma%d.md","content":"lemma %d"}`, i, i), "ok", time.Second)
		}
	}, hints: 3, nod: "the notes do not change"},
	{name: "one question every few days", play: func(s *scene) {
		a := s.agent(0).named("me")
		for i := range 10 {
			a.at = time.Duration(i) * 50 * time.Hour
			a.user("What is the wifi password of the guest room?").call("search_notes", `{"q":"wifi"}`, "guest: sunflower", time.Second).answer("sunflower")
		}
	}},
	{name: "a child that plays with the light", play: func(s *scene) {
		a := s.agent(0).system("You control the house.")
		a.think = time.Second
		for i := range 12 {
			w := []string{"on", "off"}[i%2]
			a.user("Light "+w).call("set_light", fmt.Sprintf(`{"on":%t}`, i%2 == 0), "ok", 100*time.Millisecond).answer("The light is " + w + ".").wait(8 * time.Second)
		}
	}, hints: 6, nod: "the same within seconds, again and again"},
	{name: "a person who skips tracks", play: func(s *scene) {
		a := s.agent(0).system("You play music.")
		a.think = time.Second
		for range 10 {
			a.user("next track").call("next_track", `{}`, "ok", 100*time.Millisecond).answer("Here you go.").wait(6 * time.Second)
		}
	}, hints: 6, nod: "the same within seconds, again and again"},
	{name: "a person who wants it louder", play: func(s *scene) {
		a := s.agent(0).system("You play music.")
		a.think = time.Second
		for i := range 10 {
			a.user("louder").call("volume", `{"by":10}`, fmt.Sprintf(`{"volume":%d}`, 10*i), 100*time.Millisecond).answer("Louder.").wait(5 * time.Second)
		}
	}, hints: 6, nod: "the same within seconds, again and again"},
	{name: "a person who wants another picture", play: func(s *scene) {
		a := s.agent(0).user("Draw a cat.")
		for i := range 10 {
			a.call("generate_image", `{"prompt":"a cat"}`, fmt.Sprintf(`{"url":"https://cdn.example.com/%08x.png"}`, 7919*i+77), 4*time.Second).answer("Here is a cat.").wait(9 * time.Second).user("again")
		}
	}},
	{name: "a person who wants to talk to a human", play: func(s *scene) {
		a := s.agent(0).system("You are support.")
		for i := range 6 {
			a.user("Let me talk to a human!").answer(fmt.Sprintf("I understand. Can I have your order number first? (%d)", i)).wait(9 * time.Second)
		}
	}, hints: 2, nod: "the same again"},
	{name: "a choice of the next speaker", play: func(s *scene) {
		a := s.agent(0).system("Read the conversation. Then select the next role from [planner, coder, tester] to play. Only return the role.")
		for i := range 18 {
			a.user(fmt.Sprintf("%s: step %d is done, %s", strings.Fields("planner coder tester")[i%3], i, strings.Repeat("next ", i%4))).user("Who is next?").ask().wait(3 * time.Second)
			a.conv = a.conv[:len(a.conv)-1]
		}
	}},
	{name: "a question that is rewritten before it is answered", play: func(s *scene) {
		a := s.agent(0).named("chat").system("Answer with the context.")
		for i := range 12 {
			q := strings.Fields("yes no more yes why yes more no yes yes how yes")[i]
			b := s.agent(a.at).named("chat").system("Rewrite the question.").user("Chat so far: turn " + fmt.Sprint(i) + "\nQuestion: " + q)
			b.think = time.Second
			b.ask()
			a.wait(time.Second).user(q).answer(fmt.Sprintf("Fact %d about the thing.", i)).wait(12 * time.Second)
		}
	}},
	{name: "a page that sends each prompt twice", play: func(s *scene) {
		for i := range 20 {
			for k := range 2 {
				s.agent(time.Duration(i)*15*time.Second + time.Duration(k)*20*time.Millisecond).user(fmt.Sprintf("Explain word %d.", i)).ask()
			}
		}
	}},
	{name: "client that reconnects", play: func(s *scene) {
		a := s.agent(0).user("Tell me a story about a very long river.")
		for range 4 {
			a.status(499).wait(2 * time.Second)
		}
		a.answer("Once.")
	}},
	{name: "completion while a cursor moves", play: func(s *scene) {
		for i := range 60 {
			a := s.agent(time.Duration(i) * 900 * time.Millisecond)
			a.think = 400 * time.Millisecond
			k := []int{0, 1, 2, 1, 2, 3, 2, 3, 4, 4}[i%10] + i/10
			a.system("Complete the code at <cursor>.").user("func f(a int) int {\n\treturn a" + strings.Repeat("+1", k) + "<cursor>\n}").ask()
		}
	}},
	{name: "twenty questions", play: func(s *scene) {
		a := s.agent(0).system("Guess the animal.").user("Begin.")
		for i := range 15 {
			a.answer(fmt.Sprintf("Does it %s?", strings.Fields("fly swim bark meow hop crawl sing climb dig hunt graze sleep hide glide growl")[i])).wait(3 * time.Second).user("no")
		}
	}},
	{name: "a yes before each deletion", play: func(s *scene) {
		a := s.agent(0).system("Ask before each deletion.").user("Clean my photos.")
		for i := range 14 {
			a.answer(fmt.Sprintf("Delete IMG_%04d.jpg?", 8000+i*31)).wait(3*time.Second).user("yes").call("delete_photo", fmt.Sprintf(`{"id":"IMG_%04d.jpg"}`, 8000+i*31), "deleted", time.Second)
		}
	}},
	{name: "a form with many fields", play: func(s *scene) {
		a := s.agent(0).user("Fill the form.")
		for i, n := range names(16) {
			a.call("browser_type", fmt.Sprintf(`{"ref":"e%d","text":%q}`, 20+i, n), "Typed.", time.Second).call("browser_press_key", `{"key":"Tab"}`, "Pressed.", time.Second)
		}
	}},
	{name: "the way to a button by the Tab key", play: func(s *scene) {
		a := s.agent(0).user("Press Tab until the button has the focus.")
		for i := range 12 {
			a.call("press_key", `{"key":"Tab"}`, "Pressed Tab. Focus: "+names(12)[i], time.Second)
		}
	}},
	{name: "the tenth entry of a menu, unseen", play: func(s *scene) {
		a := s.agent(0).user("Choose the tenth entry.")
		for range 9 {
			a.call("press_key", `{"key":"ArrowDown"}`, "ok", time.Second)
		}
	}, hints: 4, nod: "nothing is seen"},
	{name: "a map that is enlarged", play: func(s *scene) {
		a := s.agent(0).user("Zoom in on the map.")
		for i := range 12 {
			a.call("computer", `{"action":"key","text":"plus"}`, "done", time.Second).user("", page(i))
		}
	}},
	{name: "summaries in place of the history", play: func(s *scene) {
		a := s.agent(0).system("You code.").user("Port it.")
		for r := range 4 {
			for i := range 10 {
				a.call("edit", fmt.Sprintf(`{"path":"f%d.go"}`, r*10+i), "edited", time.Second)
				if i%5 == 0 {
					a.call("read_file", `{"path":"README.md"}`, "the rules", time.Second)
				}
			}
			a.conv = a.conv[:2]
			a.user(fmt.Sprintf("This session is being continued from a previous conversation. Summary: %d files are ported.", 10*(r+1)))
		}
	}, hints: 3, nod: "read again"},
	{name: "a person who says thanks", play: func(s *scene) {
		a := s.agent(0).named("j")
		for i := range 12 {
			a.user("thanks").answer([]string{"You're welcome!", "My pleasure!"}[i%2]).wait(25 * time.Second)
		}
	}},
	{name: "a silent caller", play: func(s *scene) {
		a := s.agent(0).named("call").system("You are on the phone.")
		a.think = time.Second
		for i := range 12 {
			a.user("(silence)").answer([]string{"Are you still there?", "Hello? Take your time.", "I'm here when you're ready."}[i%3]).wait(12 * time.Second)
		}
	}, hints: 5, nod: "nobody speaks"},
}
