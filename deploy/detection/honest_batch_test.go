package detection

import (
	"fmt"
	"strings"
	"time"
)

var towns = strings.Fields("Oslo Rome Paris Berlin Madrid Lisbon Vienna Prague Warsaw Dublin Athens Zagreb")

var people = strings.Fields("Anna Ben Clara David Emma Felix Greta Hugo Ida Jonas Karla Leo")

var things = strings.Fields("chair lamp kettle blanket mirror carpet bottle basket candle pillow drawer ladder")

// each asks a prompt for each word, as conversations of its own or as turns of one, with a
// session or without.
func each(format string, words []string, session string, oneConversation bool, answer string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).system("You are a helpful assistant.").named(session)
		for _, w := range words {
			if !oneConversation {
				a.again()
			}
			a.user(fmt.Sprintf(format, w)).answer(strings.ReplaceAll(answer, "%s", w)).wait(2 * time.Second)
		}
	}
}

// batchScenes are honest ones: of batches whose items differ in little.
var batchScenes = []honest{
	{name: "greetings to people in one session", play: each("Write a birthday greeting for %s.", people, "batch", false, "Happy birthday, %s!")},
	{name: "greetings to people, turn by turn", play: each("Write a birthday greeting for %s.", people, "batch", true, "Happy birthday, %s!")},
	{name: "capitals and weather of towns in one session", play: each("What is the weather like in %s today?", towns, "batch", false, "Sunny.")},
	{name: "descriptions of goods in one session", play: each("Write a product description for a %s.", things, "batch", false, "A fine %s.")},
	{name: "descriptions of goods without a session", play: each("Write a product description for a %s.", things, "", false, "A fine %s.")},
	{name: "goods in lower case, turn by turn", play: each("and now a %s", things, "chat", true, "A fine %s.")},
	{name: "short prompts about people in one session", play: each("Tell me about %s.", people, "batch", false, "Well, %s.")},
	{name: "a long prompt about each person in one session", play: each("Please look up the customer record of %s and tell me in one sentence whether the last invoice was paid on time.", people, "batch", false, "%s paid.")},
	{name: "a long prompt about each thing in one session", play: each("Please look in the store room and tell me in one sentence whether there is still a %s left that we could sell.", things, "batch", false, "Yes, a %s.")},
	{name: "sentiment of short reviews in one session", play: func(s *scene) {
		a := s.agent(0).system("Classify the sentiment.").named("batch")
		for i := range 12 {
			a.again().user(fmt.Sprintf("Review: the %s was %s.", things[i], []string{"great", "awful", "fine"}[i%3])).answer("ok").wait(time.Second)
		}
	}},
	{name: "a transcript that grows word by word", play: func(s *scene) {
		words := strings.Fields("please book me a table for two at the little place by the harbour where we went last summer with the children and ask for a window if they have one")
		a := s.agent(0).system("Decide whether the speaker is finished.").named("call-1")
		a.think = 200 * time.Millisecond
		for i := 3; i < len(words); i++ {
			a.again().user(strings.Join(words[:i], " ")).answer("no").wait(200 * time.Millisecond)
		}
	}},
	{name: "a transcript that grows word by word, without a session", play: func(s *scene) {
		words := strings.Fields("so the thing that I wanted to ask you about is whether the invoice from march was ever paid because our accountant says that it is still open")
		a := s.agent(0).system("Decide whether the speaker is finished.")
		a.think = 200 * time.Millisecond
		for i := 3; i < len(words); i++ {
			a.again().user(strings.Join(words[:i], " ")).answer("no").wait(200 * time.Millisecond)
		}
	}},
	{name: "one command for each name, all ok", play: func(s *scene) {
		a := s.agent(0).user("Restart the services.")
		for _, n := range names(12) {
			a.call("bash", fmt.Sprintf(`{"command":"systemctl restart %s"}`, n), "ok", time.Second)
		}
	}},
	{name: "one command for each name, with words and ok", play: func(s *scene) {
		a := s.agent(0).user("Restart the services.")
		for _, n := range names(12) {
			a.add(message{role: "assistant", text: "Now I restart " + n + ".", calls: []call{{"bash", fmt.Sprintf(`{"command":"systemctl restart %s"}`, n)}}}, message{role: "user", results: []result{{text: "ok"}}}).ask().wait(time.Second)
		}
	}},
	{name: "one user command for each name as text", play: func(s *scene) {
		a := s.agent(0).system("You run commands.").user("Add the users.")
		for _, n := range names(12) {
			a.answer("```bash\nuseradd " + n + "\n```").user("ok")
		}
	}},
	{name: "sub-agents with one long report", play: func(s *scene) {
		report := "I looked through the module, ran its tests and read its documentation. The tests pass, the documentation matches the code, and I found nothing that needs to be changed before the release."
		a := s.agent(0).user("Have all modules reviewed.")
		for _, n := range names(8) {
			a.call("task", fmt.Sprintf(`{"description":"review %s","prompt":"Review the module %s and report."}`, n, n), report, 40*time.Second)
		}
	}},
	{name: "translations of one list", play: func(s *scene) {
		a := s.agent(0).system("Translate to German.").named("i18n")
		for w := range strings.SplitSeq("Save|Save as|Open|Open recent|Close|Close all|Print|Print preview|Undo|Redo|Cut|Copy", "|") {
			a.again().user("Translate this button: " + w).answer("…").wait(time.Second)
		}
	}},
	{name: "a quiz with yes and no", play: func(s *scene) {
		a := s.agent(0).system("You host a quiz.").named("quiz")
		for i := range 10 {
			a.user([]string{"yes", "no", "no", "yes", "yes", "no", "yes", "no", "yes", "yes"}[i]).answer(fmt.Sprintf("Right. Is a %s older than a %s?", things[i], things[i+1])).wait(3 * time.Second)
		}
	}},
	{name: "companies whose data is looked up", play: func(s *scene) {
		a := s.agent(0).user("Fill in the list of companies.")
		for _, n := range people {
			a.call("lookup", fmt.Sprintf(`{"company":"%s Ltd"}`, n), fmt.Sprintf(`{"name":"%s Ltd","country":"NO","listed":false}`, n), time.Second)
		}
	}},
	{name: "greps that find one line each", play: func(s *scene) {
		a := s.agent(0).user("Where are these used?")
		for _, n := range names(14) {
			a.call("bash", fmt.Sprintf(`{"command":"grep -rn %s src"}`, n), "src/main.go: call "+n, time.Second)
		}
	}},
	{name: "a commit after each change", play: func(s *scene) {
		a := s.agent(0).user("Commit each change by itself.")
		for i, n := range names(10) {
			a.call("bash", fmt.Sprintf(`{"command":"git add %s.go && git commit -m 'Clean up %s'"}`, n, n), fmt.Sprintf("[main %07x] Clean up %s\n 1 file changed", i*7919, n), time.Second)
		}
	}},
	{name: "a chat about one subject", play: func(s *scene) {
		a := s.agent(0).named("chat")
		for _, q := range []string{"how do I cook rice", "how do I cook brown rice", "how long do I cook rice", "how do I cook rice for sushi", "how do I cook rice in a pot", "how do I cook rice without a lid"} {
			a.user(q).answer("Like this.").wait(20 * time.Second)
		}
	}},
	{name: "searches that narrow down", play: func(s *scene) {
		a := s.agent(0).user("Find a flat.")
		for _, q := range []string{"flat harbour", "flat harbour balcony", "flat harbour balcony two rooms", "flat harbour balcony two rooms cheap", "flat harbour balcony two rooms cheap quiet"} {
			a.call("search", fmt.Sprintf(`{"q":%q}`, q), "results: "+q, time.Second)
		}
	}},
}
