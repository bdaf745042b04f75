package detection

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// honest is a scene of people and agents who do not go in circles.
type honest struct {
	name string
	play func(*scene)
	// hints is the number of requests that may be hinted, and nod why a person would
	// agree with a hint; "" if there may be none.
	hints int
	nod   string
}

// honestScenes returns the honest scenes of all tables.
func honestScenes() []honest {
	return slices.Concat(mediaScenes, wokenScenes, waitingScenes, firstScenes, busyScenes, workScenes, chatScenes, gameScenes, lookScenes, jobScenes, peopleScenes, textScenes, moreScenes, batchScenes, usualScenes)
}

// Each honest scene passes in each wire format: none of its requests is stopped, and
// hints come only where the table says so.
func TestHonestScenes(t *testing.T) {
	t.Parallel()
	for _, h := range honestScenes() {
		for _, wire := range wires() {
			t.Run(h.name+"/"+wire.name, func(t *testing.T) {
				t.Parallel()
				h.test(t, &scene{}, wire)
			})
		}
	}
}

// A balancer changes nothing: each scene passes, too, if its requests go to two or three
// gateways in turn.
func TestHonestScenesBehindABalancer(t *testing.T) {
	t.Parallel()
	for _, h := range honestScenes() {
		for n := 2; n <= 3; n++ {
			t.Run(fmt.Sprintf("%s/%d gateways", h.name, n), func(t *testing.T) {
				t.Parallel()
				h.test(t, &scene{gateways: n}, wires()[0])
			})
		}
	}
}

// test plays the scene.
func (h *honest) test(t *testing.T, s *scene, wire wire) {
	t.Helper()
	h.play(s)
	p := s.play(t, wire)
	if p.stops() > 0 || p.hints() > h.hints {
		t.Errorf("%d stopped, %d hinted; want none stopped, and %d hinted at the most (%s)\n%s", p.stops(), p.hints(), h.hints, h.nod, p)
	}
}

// page returns the bytes of picture n.
func page(n int) media { return media{kind: "image", data: fmt.Sprintf("\x89PNG picture %d", n)} }

// signed returns a URL of object n that is signed again each time.
func signed(kind string, n, at int) media {
	return media{kind: kind, url: fmt.Sprintf("https://bucket.s3.amazonaws.com/object-%d?X-Amz-Date=20260302T09%04dZ&X-Amz-Expires=900&X-Amz-Signature=%064x", n, at, at)}
}

// batch sends n requests with one prompt and other media, each as a conversation of its own.
func batch(n int, gap time.Duration, prompt string, part func(int) media) func(*scene) {
	return func(s *scene) {
		for i := range n {
			s.agent(time.Duration(i)*gap).user(prompt, part(i)).ask()
		}
	}
}

// shown looks at a screen n times. The tool answers with a text alone; what the screen
// shows comes in the next message.
func shown(n int, screen func(int) media) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).user("Wait until the page has loaded.")
		for i := range n {
			a.call("screenshot", `{}`, "Screenshot taken.", 6*time.Second).user("", screen(i))
		}
	}
}

var mediaScenes = []honest{
	{name: "OCR of pages", play: batch(60, 2*time.Second, "Extract the text of this page.", page)},
	{name: "pictures by URL", play: batch(40, 2*time.Second, "Is there a defect in this picture? Answer yes or no.", func(i int) media {
		return media{kind: "image", url: fmt.Sprintf("https://example.com/parts/%d.png", i)}
	})},
	{name: "pictures by signed URL", play: batch(40, 2*time.Second, "Describe the picture.", func(i int) media { return signed("image", i, i) })},
	{name: "pictures by file id", play: batch(40, 2*time.Second, "Describe the picture.", func(i int) media {
		return media{kind: "image", file: fmt.Sprintf("file-%06d", i)}
	})},
	{name: "recordings", play: batch(30, 3*time.Second, "Transcribe this call.", func(i int) media {
		return media{kind: "audio", data: fmt.Sprintf("RIFF call %d", i)}
	})},
	{name: "documents", play: batch(30, 3*time.Second, "Summarize the invoice as JSON.", func(i int) media {
		return media{kind: "pdf", data: fmt.Sprintf("%%PDF-1.7 invoice %d", i)}
	})},
	{name: "documents in one session", play: func(s *scene) {
		a := s.agent(0).named("invoices").system("You book invoices.")
		for i := range 30 {
			a.user("Which account does this invoice belong to?", media{kind: "pdf", data: fmt.Sprintf("%%PDF-1.7 invoice %d", i)}).answer("4400")
		}
	}},
	{name: "one person's pictures, one after the other", play: func(s *scene) {
		a := s.agent(0)
		for i := range 25 {
			a.user("What about this one?", page(i)).answer("No defect.").wait(5 * time.Second)
		}
	}},
	{name: "computer use with a new screenshot each time", play: func(s *scene) {
		a := s.agent(0).system("You operate a computer.").user("Scroll to the end of the terms, and accept them.")
		for i := range 30 {
			a.call("computer", `{"action":"scroll","coordinate":[640,400],"scroll_amount":5,"scroll_direction":"down"}`, "", time.Second, page(i))
		}
	}},
	{name: "frames of a camera, in one conversation", play: func(s *scene) {
		a := s.agent(0).named("camera").system("You watch a door. Say open or closed.")
		for i := range 30 {
			a.user("Frame:", page(i)).answer("closed").wait(2 * time.Second)
		}
	}},
	{name: "a picture that is edited ten times", play: func(s *scene) {
		a := s.agent(0).user("Make the logo better.", page(0))
		for i := range 10 {
			a.call("edit_image", `{"operation":"enhance"}`, "", 3*time.Second, page(i+1))
		}
	}},
	{name: "two pictures to compare, pair after pair", play: func(s *scene) {
		for i := range 20 {
			s.agent(time.Duration(i)*2*time.Second).user("Which of the two is sharper?", page(2*i), page(2*i+1)).ask()
		}
	}},
	{name: "screenshots in the message behind the result", play: shown(30, page)},
	{name: "screenshots of a video that plays", play: func(s *scene) {
		a := s.agent(0).user("Tell me when the titles begin.")
		for i := range 20 {
			a.call("screenshot", `{}`, "taken", 2*time.Second, page(i))
		}
	}},
}

// woken runs n ticks of an agent that is woken by a schedule: the same prompt, a tool
// with the same result, and an answer in full. Each tick goes on in one conversation if
// it is kept.
func woken(n int, every time.Duration, keep bool, prompt, tool, result, answer string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).named("watch").system("You watch over things, and are woken by a schedule.")
		for i := range n {
			a.at = time.Duration(i) * every
			if !keep {
				a.again()
			}
			a.user(prompt).call(tool, `{}`, result, time.Second).answer(answer)
		}
	}
}

var wokenScenes = []honest{
	{name: "a schedule that says the time", play: func(s *scene) {
		for i := range 24 {
			a := s.agent(time.Duration(i) * 5 * time.Minute)
			a.user(fmt.Sprintf("It is 2026-03-02T%02d:%02d:00Z. Say whether a reminder is due.", 9+i/12, i%12*5)).ask()
		}
	}},
	{name: "a mail check every 15 minutes", play: woken(60, 15*time.Minute, true, "Check the inbox, and answer what is urgent.", "list_mail", "[]", "There is no new mail.")},
	{name: "a mail check that begins anew each time", play: woken(60, 15*time.Minute, false, "Check the inbox, and answer what is urgent.", "list_mail", "[]", "There is no new mail.")},
	{name: "a heartbeat each minute", play: woken(120, time.Minute, true, "HEARTBEAT: see whether anything is to be done.", "read_tasks", "ok", "HEARTBEAT_OK")},
	{name: "an hourly look", play: woken(48, time.Hour, true, "Anything new?", "list_alerts", "[]", "Nothing new.")},
	{name: "a nightly report", play: woken(14, 24*time.Hour, false, "Write tonight's report.", "query", "0 rows", "No incidents tonight.")},
	{name: "a person who says: run the tests again", play: func(s *scene) {
		a := s.agent(0).system("You are a coding assistant.").user("Fix the flaky test.")
		for range 12 {
			a.call("bash", `{"command":"go test ./..."}`, "ok  \texample.com/app\t1.2s", 10*time.Second).answer("All tests pass.").wait(40 * time.Second).user("run the tests again")
		}
	}},
	{name: "a tick that fails as it did before", play: woken(24, 10*time.Minute, true, "Sync the calendar.", "sync", "Error: the calendar is offline", "The calendar is still offline; I will try again at the next tick.")},
	{name: "a daily standup in one thread", play: woken(20, 24*time.Hour, true, "Post the standup.", "list_tickets", "APP-1 in progress", "Posted.")},
	{name: "a person who asks for the status now and then", play: func(s *scene) {
		a := s.agent(0).user("Start the export.").call("start", `{}`, "started", time.Second).answer("It runs.")
		for range 10 {
			a.wait(3*time.Minute).user("How far is it?").call("status", `{}`, "running", time.Second).answer("It is still running.")
		}
	}},
	{name: "a tick without a tool", play: func(s *scene) {
		a := s.agent(0).named("tick")
		for i := range 40 {
			a.at = time.Duration(i) * 5 * time.Minute
			a.user("Is it time to post the reminder? The rules are above.").answer("Not yet.")
		}
	}},
}

// polls calls one tool again and again.
func polls(n int, gap time.Duration, tool, args, result string) func(*scene) {
	return func(s *scene) {
		a := s.agent(0).user("Deploy the branch, and tell me when it is done.")
		for range n {
			a.call(tool, args, result, gap-a.think)
		}
		a.call(tool, args, "done", time.Second).answer("It is deployed.")
	}
}

var waitingScenes = []honest{
	{name: "a CI watch every 30 seconds for 20 minutes", play: polls(40, 30*time.Second, "bash", `{"command":"gh run view 123 --json status"}`, `{"status":"in_progress"}`), hints: 10, nod: "it has waited for minutes"},
	{name: "kubectl get pods every 30 seconds", play: polls(25, 30*time.Second, "bash", `{"command":"kubectl get pods"}`, "api-0  0/1  ContainerCreating"), hints: 10, nod: "it has waited for minutes"},
	{name: "a job that is looked at every minute for two hours", play: polls(120, time.Minute, "check_job", `{"id":"job-7"}`, `{"state":"running"}`), hints: 20, nod: "it has waited for an hour"},
	{name: "wait and check", play: func(s *scene) {
		a := s.agent(0).user("Wait until the import is done.")
		for range 25 {
			a.call("wait", `{"seconds":60}`, "waited 60 seconds", time.Minute).call("check_job", `{"id":"job-7"}`, `{"state":"running"}`, time.Second)
		}
		a.call("check_job", `{"id":"job-7"}`, `{"state":"done"}`, time.Second).answer("Done.")
	}, hints: 10, nod: "it has waited for minutes"},
	{name: "sleep and check in a shell", play: func(s *scene) {
		a := s.agent(0).user("Wait for the build.")
		for range 20 {
			a.call("bash", `{"command":"sleep 45"}`, "", 45*time.Second).call("bash", `{"command":"cat build.status"}`, "building", time.Second)
		}
	}, hints: 10, nod: "it has waited for minutes"},
	{name: "curl of a server that starts, every 6 seconds", play: polls(10, 6*time.Second, "bash", `{"command":"curl -s localhost:8080/health"}`, "curl: (7) Failed to connect"), hints: 5, nod: "the server has not come up for a minute"},
	{name: "a log that is followed", play: func(s *scene) {
		a := s.agent(0).user("Tell me when the migration is through.")
		for i := range 30 {
			a.call("bash", `{"command":"tail -n 2 migrate.log"}`, fmt.Sprintf("row %d of 3000", 100*i), 20*time.Second)
		}
	}},
	{name: "an answer of a colleague that is awaited", play: polls(48, 5*time.Minute, "read_channel", `{"channel":"ops"}`, "no new messages"), hints: 20, nod: "it has waited for an hour"},
	{name: "a build with a tool that blocks until it ends", play: polls(6, 4*time.Minute, "wait_for_build", `{"id":7,"timeout":240}`, "timeout: still building"), hints: 4, nod: "it has waited for minutes"},
	{name: "a port that opens late, every 10 seconds", play: polls(12, 10*time.Second, "bash", `{"command":"nc -z localhost 5432 || echo closed"}`, "closed"), hints: 8, nod: "it has waited for a minute"},
	{name: "a queue worker that finds its queue empty", play: polls(60, 30*time.Second, "receive_message", `{"queue":"orders"}`, "[]"), hints: 20, nod: "it has waited for minutes"},
}

var firstScenes = []honest{
	{name: "a guardrail model before each message", play: func(s *scene) {
		for i := range 200 {
			a := s.agent(time.Duration(i) * time.Second)
			a.think = 500 * time.Millisecond
			text := fmt.Sprintf("customer message %d", i)
			if i%8 == 0 {
				text = "hello"
			}
			a.system("Answer safe or unsafe.").user(text).ask()
		}
	}},
	{name: "an outage's question", play: func(s *scene) {
		for i := range 60 {
			text := "Why is the site down?"
			if i%2 == 0 {
				text = fmt.Sprintf("Where is my order %d?", 7000+37*i)
			}
			s.agent(time.Duration(i) * 2 * time.Second).system("You are the shop's assistant.").user([]string{text, "How do I return item number " + fmt.Sprint(i) + "?"}[i%3/2]).ask()
		}
	}},
	{name: "simulated users", play: func(s *scene) {
		for i := range 60 {
			a := s.agent(time.Duration(i) * 700 * time.Millisecond).system("You are a travel agent.").user("Hi, I need to change my flight.")
			a.answer("What is your booking number?").user(fmt.Sprintf("It is %06X.", 7919*i)).answer("Done.")
		}
	}},
	{name: "eight samples at once", play: func(s *scene) {
		for range 8 {
			s.agent(0).user("Write a haiku about rain.").ask()
		}
	}},
	{name: "n-best: 5 samples for each of 20 prompts", play: func(s *scene) {
		for i := range 100 {
			s.agent(time.Duration(i/5) * 6 * time.Second).user(fmt.Sprintf("Solve problem %d: how many tiles cover the floor of room %d?", i/5, i/5)).ask()
		}
	}},
	{name: "self-consistency: 32 samples at once, then 32 of the next", play: func(s *scene) {
		for i := range 96 {
			s.agent(time.Duration(i/32) * 20 * time.Second).user(fmt.Sprintf("Question %d. Think step by step.", i/32)).ask()
		}
	}},
	{name: "cache warm-ups", play: func(s *scene) {
		for i := range 8 {
			s.agent(time.Duration(i) * 4 * time.Minute).system("A long system prompt.").user("Reply with OK.").ask()
		}
	}},
	{name: "duplicates in a batch", play: func(s *scene) {
		for i := range 150 {
			text := fmt.Sprintf("Classify the review: product %d is fine.", i)
			if i%6 == 0 {
				text = "Classify the review: good."
			}
			a := s.agent(time.Duration(i) * 1200 * time.Millisecond)
			a.think = time.Second
			a.user(text).ask()
		}
	}},
	{name: "14 CI jobs with sessions of their own", play: func(s *scene) {
		for i := range 14 {
			s.agent(time.Duration(i)*3*time.Second).named(fmt.Sprint("job-", i)).user("Review the diff in the working directory.").call("git_diff", `{}`, fmt.Sprintf("diff of job %d", i), time.Second).answer("Looks good.")
		}
	}},
	{name: "a template with a new question each time", play: func(s *scene) {
		for i := range 60 {
			s.agent(time.Duration(i) * 2 * time.Second).user(fmt.Sprintf("Translate into German, keep placeholders: string %d of the user interface", i)).ask()
		}
	}},
	{name: "titles of conversations", play: func(s *scene) {
		for i := range 30 {
			s.agent(time.Duration(i) * 20 * time.Second).system("Write a title of five words.").user(fmt.Sprintf("How do I cook dish number %d?", i)).ask()
		}
	}},
	{name: "a judge with one rubric", play: func(s *scene) {
		for i := range 60 {
			s.agent(time.Duration(i) * time.Second).system("Grade the answer from 1 to 5.").user(fmt.Sprintf("Question: what is %d + %d? Answer: %d", i, i+1, 2*i+1)).ask()
		}
	}},
	{name: "a debate of three agents behind one key", play: func(s *scene) {
		for k := range 3 {
			a := s.agent(time.Duration(k) * 2 * time.Second).system(fmt.Sprintf("You are debater %d.", k)).user("Is a hot dog a sandwich?")
			for i := range 8 {
				a.answer(fmt.Sprintf("Point %d of debater %d: bread on %d sides.", i, k, i+k)).user(fmt.Sprintf("The others said: point %d is weak since case %d differs.", i, i*k))
			}
		}
	}},
	{name: "rows of a table, a prompt for each", play: func(s *scene) {
		for i := range 80 {
			s.agent(time.Duration(i) * 300 * time.Millisecond).user(fmt.Sprintf("Extract name and price from this row as JSON: %c%c lamp;%d.%02d", 'A'+i%26, 'a'+i%7, 3*i, i)).ask()
		}
	}},
	{name: "a load balancer's check every 30 seconds, beside traffic", play: func(s *scene) {
		for i := range 120 {
			text := fmt.Sprintf("How tall is mountain %d?", i)
			if i%6 == 0 {
				text = "ping"
			}
			s.agent(time.Duration(i) * 5 * time.Second).user(text).ask()
		}
	}},
	{name: "one question for five models", play: func(s *scene) {
		for i := range 5 {
			a := s.agent(time.Duration(i) * 5 * time.Second)
			a.model = fmt.Sprint("model-", i)
			a.user("What is the capital of Australia?").ask()
		}
	}},
	{name: "one user's retries of a failing upstream", play: func(s *scene) {
		a := s.agent(0).user("Summarize the meeting.")
		for range 3 {
			a.status(529)
		}
		a.answer("The meeting was short.")
	}},
}
