package detection

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// dice returns random numbers that are the same in each run.
func dice() *rand.Rand { return rand.New(rand.NewPCG(7, 11)) }

// passages returns three passages of a manual, as a search in it finds them.
func passages(of int) string {
	var b strings.Builder
	for i := range 3 {
		fmt.Fprintf(&b, "[%d] Section %d: the %s is turned by hand until it clicks, and cleaned with a dry cloth after each use.\n", i+1, of+i, names(40)[(of+i)%40])
	}
	return b.String()
}

// usualScenes are usual applications: answers from documents, crawlers, editors, evaluation,
// speech, schedules, fleets.
var usualScenes = []honest{
	{name: "questions of many users about one manual, behind one key", play: func(s *scene) {
		r := dice()
		usual := []string{"How do I reset it?", "How do I clean it?", "Where is the manual?"}
		for i := range 150 {
			q := fmt.Sprintf("Does part %s fit the model of %d?", names(60)[r.IntN(60)], 1990+r.IntN(35))
			if r.IntN(4) == 0 {
				q = usual[r.IntN(3)]
			}
			a := s.agent(time.Duration(i)*1100*time.Millisecond + time.Duration(r.IntN(900))*time.Millisecond)
			a.think = time.Duration(1+r.IntN(6)) * time.Second
			a.system("Answer from the passages.").user("Passages:\n" + passages(r.IntN(4)) + "Question: " + q).ask()
		}
	}},
	{name: "one person's questions about one manual", play: func(s *scene) {
		a := s.agent(0).system("Answer from the manual.").user("I have the coffee machine.")
		for i := range 12 {
			a.answer("What do you want to know?").wait(8*time.Second).user("And what about the "+names(12)[i]+"?").
				call("search_manual", fmt.Sprintf(`{"query":"coffee machine %s"}`, names(12)[i]), passages(i/6), time.Second)
		}
		a.answer("That is all.")
	}},
	{name: "agents that look up what one user asked each", play: func(s *scene) {
		r := dice()
		for i := range 60 {
			a := s.agent(time.Duration(i) * 2500 * time.Millisecond).system("Answer from the wiki.").user("hello")
			a.answer("Hello! What do you want to know?").wait(4 * time.Second).user(fmt.Sprintf("Who owns service %s?", names(30)[r.IntN(30)]))
			a.call("search", `{"query":"owner"}`, "Team A owns all services.", time.Second).answer("Team A.").wait(3 * time.Second).user("thanks").answer("You are welcome.")
		}
	}},
	{name: "visitors who all ask something, and say thanks", play: func(s *scene) {
		for i := range 40 {
			a := s.agent(time.Duration(i) * 6 * time.Second).system("Answer from the wiki.").user("hello")
			a.answer("Hello! What do you want to know?").wait(2 * time.Second).user(fmt.Sprintf("Who owns service %s?", names(40)[i])).answer("Team A.").wait(time.Second).user("thanks").answer("You are welcome.")
		}
	}},
	{name: "the first visitors of a morning, who read for a quarter of a minute", play: func(s *scene) {
		for i := range 30 {
			a := s.agent(time.Duration(i) * 4100 * time.Millisecond).system("You help.").user("hello")
			a.answer("Hello! How can I help you?").wait(12 * time.Second).user(fmt.Sprintf("Who owns service %s?", names(30)[i])).answer("Team A.")
		}
	}},
	{name: "a crawler", play: func(s *scene) {
		a := s.agent(0).user("Collect the prices of all products.")
		for i := range 40 {
			page := fmt.Sprintf("Home | Products | About us | Contact\nThe shop for everything around the house and the garden\n%s, %d.99 EUR\nImprint | Privacy | Terms of use\nAll rights reserved by the shop and its suppliers", names(40)[i], i)
			switch i % 10 {
			case 4:
				page = "404 Not Found"
			case 8:
				page = "Home | Products | About us | Contact\nThis product is sold out.\nImprint | Privacy | Terms of use"
			}
			a.call("fetch", fmt.Sprintf(`{"url":"https://shop.example.com/p/%s"}`, names(40)[i]), page, time.Second)
		}
	}},
	{name: "a crawler that classifies each page in a request of its own", play: func(s *scene) {
		r := dice()
		for i := range 120 {
			page := fmt.Sprintf("A page about %s and %s.", names(60)[r.IntN(60)], names(60)[r.IntN(60)])
			if r.IntN(5) == 0 {
				page = "Please enable JavaScript."
			}
			a := s.agent(time.Duration(i) * 700 * time.Millisecond).system("Name the topic of the page in one word.").user(page)
			a.think = time.Duration(400+r.IntN(1200)) * time.Millisecond
			a.ask()
		}
	}},
	{name: "completions of code that is typed, undone and typed again", play: func(s *scene) {
		code, at := "func add(a, b int) int {\n\treturn a + b\n}\n", time.Duration(0)
		r := dice()
		for range 6 {
			for n := 8; n < len(code); n += 3 {
				a := s.agent(at)
				a.think = 250 * time.Millisecond
				a.system("Complete the code.").user("<prefix>" + code[:n] + "<suffix>\nfunc main() {}")
				a.ask()
				at += time.Duration(300+r.IntN(600)) * time.Millisecond
			}
			at += 5 * time.Second
		}
	}},
	{name: "completions in one session", play: func(s *scene) {
		var text string
		for i := range 20 {
			text += fmt.Sprintf("%s went to %s and sold %s to %s. ", names(60)[i], names(60)[20+i], names(60)[40+i], names(60)[59-i])
		}
		for i := range 50 {
			a := s.agent(time.Duration(i) * 800 * time.Millisecond).named("editor")
			a.think = 300 * time.Millisecond
			a.system("Complete the text.").user(text[:60+2*i]).ask()
		}
	}},
	{name: "computer use: a form over three pages", play: func(s *scene) {
		a := s.agent(0).user("Fill in the form.")
		shot := func(i int) media { return media{kind: "image", data: fmt.Sprintf("\x89PNG screen %d", i)} }
		for i := range 18 {
			a.call("computer", fmt.Sprintf(`{"action":"left_click","coordinate":[%d,%d]}`, 200+i%3, 100+40*i), "", time.Second, shot(3*i))
			a.call("computer", fmt.Sprintf(`{"action":"type","text":%q}`, names(18)[i]), "", time.Second, shot(3*i+1))
			if i%6 == 5 {
				a.call("computer", `{"action":"key","text":"Return"}`, "", time.Second, shot(3*i+2))
				a.call("computer", `{"action":"wait","duration":2}`, "", 2*time.Second, shot(3*i+2))
			}
		}
		a.answer("The form is filled in.")
	}},
	{name: "computer use: scrolling through a list, with what it shows", play: func(s *scene) {
		a := s.agent(0).user("Find the invoice of March.")
		for i := range 25 {
			a.call("computer", `{"action":"scroll","coordinate":[400,400],"scroll_direction":"down","scroll_amount":5}`, "", time.Second, media{kind: "image", data: fmt.Sprintf("\x89PNG row %d", i)})
		}
		a.answer("Found.")
	}},
	{name: "four answers to each of 60 questions, each graded", play: func(s *scene) {
		r := dice()
		for i := range 240 {
			a := s.agent(time.Duration(i/8) * 3 * time.Second).system("Is the answer right? Say yes or no.")
			a.think = time.Duration(500+r.IntN(2000)) * time.Millisecond
			a.user(fmt.Sprintf("Question %d: what is %d times 7? Answer: %c", i/4, i/4, 'A'+r.IntN(4))).ask()
		}
	}},
	{name: "two models compared by a judge, in both orders", play: func(s *scene) {
		for i := range 60 {
			for range 2 {
				s.agent(time.Duration(i) * 2 * time.Second).system("Which answer is better, A or B?").user(fmt.Sprintf("Question %d. A: %s B: %s", i/2, names(60)[i/2], names(60)[30+i/2])).ask()
			}
		}
	}},
	{name: "guardrails before and behind each turn of ten chats", play: func(s *scene) {
		r := dice()
		said := []string{"yes", "no", "ok", "thanks", "what do you mean", "can I pay by card", "hello"}
		for i := range 100 {
			at := time.Duration(i) * 900 * time.Millisecond
			text := said[r.IntN(len(said))]
			if r.IntN(3) == 0 {
				text = "My order is " + names(60)[r.IntN(60)]
			}
			in := s.agent(at).system("Is this message safe?").user(text)
			in.think = 200 * time.Millisecond
			in.ask()
			out := s.agent(at + 2*time.Second).system("Is this answer safe?").user(fmt.Sprintf("It arrives on day %d of the week.", r.IntN(28)))
			out.think = 200 * time.Millisecond
			out.ask()
		}
	}},
	{name: "simulated users whose first two turns are alike, three trials of twelve tasks", play: func(s *scene) {
		for i := range 36 {
			a := s.agent(time.Duration(i/4) * 9 * time.Second).system("You are an airline's agent.").user("Hi, I need help with my booking.")
			a.answer("Sure. What is your booking number?").user("I do not have it at hand, sorry.").answer("What is your name, then?")
			a.user(fmt.Sprintf("I am user %s.", names(36)[i])).call("find_user", fmt.Sprintf(`{"name":%q}`, names(36)[i]), fmt.Sprintf(`{"id":%d}`, 7919*i), time.Second).answer("Done.")
		}
	}},
	{name: "a caller who says yes and ok", play: func(s *scene) {
		a := s.agent(0).system("You take orders on the phone.").named("call-1")
		a.think = 700 * time.Millisecond
		for i := range 20 {
			a.user([]string{"yes", "ok", "yes", "mm-hm"}[i%4]).answer(fmt.Sprintf("And do you want %s with that?", names(20)[i])).wait(3 * time.Second)
		}
	}},
	{name: "a caller who does not understand", play: func(s *scene) {
		a := s.agent(0).system("You take orders on the phone.").named("call-2")
		a.think = 700 * time.Millisecond
		for i := range 5 {
			a.user([]string{"sorry?", "what?", "pardon?", "can you say that again?", "once more please"}[i]).answer("Do you want to eat here, or take it with you?").wait(4 * time.Second)
		}
		a.user("take it with me").answer("Alright.")
	}},
	{name: "a schedule that finds nothing to do, every two minutes", play: func(s *scene) {
		for i := range 60 {
			s.agent(time.Duration(i)*2*time.Minute).system("You are the night watch.").user("Check the queue, and handle what is new.").call("list_queue", `{}`, "[]", time.Second).answer("Nothing to do.")
		}
	}},
	{name: "pages of an API, by their cursors", play: func(s *scene) {
		a := s.agent(0).user("How many of the users are in Lima?")
		for i := range 30 {
			a.call("list_users", fmt.Sprintf(`{"cursor":"%08x"}`, 7919*i), fmt.Sprintf(`{"users":[{"name":%q,"city":"Lima"}],"next":"%08x"}`, names(30)[i], 7919*(i+1)), time.Second)
		}
	}},
	{name: "a call for the next page, without arguments", play: func(s *scene) {
		a := s.agent(0).user("Read the book.")
		for i := range 30 {
			a.call("next_page", `{}`, fmt.Sprintf("Page %d. %s went to %s.", i+1, names(60)[i], names(60)[59-i]), time.Second)
		}
	}},
	{name: "pages of a log in which nothing matches", play: func(s *scene) {
		a := s.agent(0).user("Find the error.")
		for i := range 16 {
			a.call("search_log", fmt.Sprintf(`{"pattern":"ERROR","page":%d}`, i+1), `{"matches":[],"pages":16}`, time.Second)
		}
		a.answer("There is none.")
	}, hints: 2, nod: "it found nothing many times"},
	{name: "a story that a person lets go on", play: func(s *scene) {
		a := s.agent(0).user("Tell me a story.")
		a.think = 12 * time.Second
		for i := range 20 {
			a.answer(fmt.Sprintf("%s met %s at the %s, and they walked on to the next village.", names(60)[i], names(60)[20+i], names(60)[40+i])).wait(5 * time.Second).user("continue")
		}
	}},
	{name: "strings of a user interface, some of them equal", play: func(s *scene) {
		r := dice()
		for i := range 120 {
			text := names(60)[r.IntN(60)] + " " + names(60)[r.IntN(60)]
			if r.IntN(5) == 0 {
				text = []string{"OK", "Cancel", "Save"}[r.IntN(3)]
			}
			a := s.agent(time.Duration(i) * 500 * time.Millisecond).system("Translate into German. Answer with the translation alone.").user(text)
			a.think = 450 * time.Millisecond
			a.ask()
		}
	}},
	{name: "thirty jobs of a fleet that read the same", play: func(s *scene) {
		r := dice()
		for i := range 30 {
			a := s.agent(time.Duration(i)*2*time.Second + time.Duration(r.IntN(2000))*time.Millisecond).system("You review code.").user("Review the newest commit.")
			a.call("git_diff", `{}`, "+ return a", time.Second).call("read_file", `{"path":"README.md"}`, "A small program.", time.Second)
			a.call("run", fmt.Sprintf(`{"job":"test %s"}`, names(30)[i]), "passed in "+names(30)[i], 10*time.Second).answer("Looks good.")
		}
	}},
	{name: "thirty jobs of a fleet with sessions of their own that read the same", play: func(s *scene) {
		r := dice()
		for i := range 30 {
			a := s.agent(time.Duration(i)*2*time.Second + time.Duration(r.IntN(2000))*time.Millisecond).named(fmt.Sprint("job-", i)).system("You review code.").user("Review the newest commit.")
			a.call("git_diff", `{}`, "+ return a", time.Second).call("read_file", `{"path":"README.md"}`, "A small program.", time.Second).answer("Looks good.")
		}
	}},
	{name: "blank pages in a batch of summaries", play: func(s *scene) {
		for i := range 100 {
			text := fmt.Sprintf("Page about %s and %s.", names(60)[i%60], names(60)[(i*7)%60])
			if i%9 == 0 {
				text = "This page is left blank."
			}
			a := s.agent(time.Duration(i) * 600 * time.Millisecond).user("Summarize: " + text)
			a.think = 500 * time.Millisecond
			a.ask()
		}
	}},
	{name: "mails that are sorted, each in a conversation of its own", play: func(s *scene) {
		for i := range 40 {
			a := s.agent(time.Duration(i) * 3 * time.Second).system("Sort the mail.").user(fmt.Sprintf("From: %s\nSubject: offer %d", names(40)[i], i))
			a.call("label", `{"label":"offers"}`, "ok", time.Second).call("archive", `{}`, "ok", time.Second).answer("Sorted.")
		}
	}},
	{name: "a trader that holds", play: func(s *scene) {
		a := s.agent(0).user("Trade, and say what you do each minute.")
		for i := range 30 {
			a.call("get_price", `{"symbol":"ABC"}`, fmt.Sprintf(`{"price":%d.%02d}`, 100+i%3, 37*i%100), time.Second).answer("Hold.").wait(50 * time.Second).user("next")
		}
	}},
	{name: "tables of a database that are described", play: func(s *scene) {
		a := s.agent(0).user("Draw the schema.")
		for i := range 18 {
			a.call("sql", fmt.Sprintf(`{"query":"DESCRIBE %s"}`, names(18)[i]), "id int\nname text\ncreated timestamp", time.Second)
		}
	}, hints: 1, nod: "all tables are alike"},
	{name: "two searches at once that find the same", play: func(s *scene) {
		a := s.agent(0).user("Write about lamps.")
		for i := range 8 {
			q := names(8)[i]
			a.calls([]call{{"vector_search", fmt.Sprintf(`{"q":%q}`, q)}, {"keyword_search", fmt.Sprintf(`{"q":%q}`, q)}}, []result{{text: passages(i * 3)}, {text: passages(i * 3)}}, time.Second)
		}
	}},
	{name: "a person who waits for an answer", play: func(s *scene) {
		a := s.agent(0).system("You are the shop's assistant.").user("Where is my order?").answer("A colleague looks into it.")
		for i := range 5 {
			a.wait(time.Minute).user([]string{"hello?", "anyone there?", "hello??", "still here", "hello?"}[i]).answer("A colleague looks into it. Please wait.")
		}
	}},
	{name: "a manager that looks at its workers", play: func(s *scene) {
		a := s.agent(0).user("Have the four parts written.")
		for i := range 4 {
			a.call("start_worker", fmt.Sprintf(`{"part":%q}`, names(4)[i]), fmt.Sprintf(`{"worker":%d}`, i), time.Second)
		}
		for i := range 24 {
			a.call("check_worker", fmt.Sprintf(`{"worker":%d}`, i%4), `{"status":"running"}`, 15*time.Second)
		}
		a.answer("They are done.")
	}, hints: 8, nod: "it has waited for minutes"},
}
