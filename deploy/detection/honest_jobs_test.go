package detection

import (
	"fmt"
	"strings"
	"time"
)

// jobScenes are schedules, batches, evaluations and other work that nobody watches.
var jobScenes = []honest{
	{name: "a tick every 30 seconds in one conversation", play: woken(30, 30*time.Second, true, "Check the queue.", "get_queue", "[]", "Nothing.")},
	{name: "a tick every 30 seconds that begins anew", play: woken(30, 30*time.Second, false, "Check the queue.", "get_queue", "[]", "Nothing.")},
	{name: "a tick each minute that calls two tools", play: func(s *scene) {
		a := s.agent(0).named("w").system("You watch.")
		for i := range 30 {
			a.at = time.Duration(i) * time.Minute
			a.user("tick").call("list_orders", `{}`, "[]", time.Second).call("list_returns", `{}`, "[]", time.Second).answer("Nothing to do.")
		}
	}},
	{name: "rounds of five checks without a session", play: func(s *scene) {
		for i := range 30 {
			a := s.agent(time.Duration(i) * 5 * time.Minute).system("You watch.").user("Do the rounds.")
			for _, t := range []string{"a", "b", "c", "d", "e"} {
				a.call("check_"+t, `{}`, "ok", time.Second)
			}
			a.answer("All is well.")
		}
	}},
	{name: "summaries of parts, then of summaries", play: func(s *scene) {
		for i := range 24 {
			s.agent(time.Duration(i/6) * 8 * time.Second).user("Summarize the following part of the document in three sentences:\n\n" + linesOf(i*30, 30)).ask()
		}
		for i := range 6 {
			s.agent(time.Minute + time.Duration(i)*6*time.Second).user(fmt.Sprintf("Combine these summaries into one:\n\n%s", strings.Repeat(fmt.Sprintf("Part %d says a lot. ", i), 4+i))).ask()
		}
	}},
	{name: "an answer that does not parse, asked for again with pauses", play: func(s *scene) {
		a := s.agent(0).user("Give me the list as JSON.")
		for i := range 5 {
			a.ask().wait(time.Duration(1<<i) * time.Second)
		}
	}},
	{name: "a summary that is refined part by part", play: func(s *scene) {
		for i := range 20 {
			s.agent(time.Duration(i) * 6 * time.Second).user(fmt.Sprintf("We have an existing summary: %s\nRefine it with the context below.\n%s", strings.Repeat("The lake is deep. ", i+1), linesOf(i*10, 10))).ask()
		}
	}},
	{name: "twelve agents on one task, one after the other", play: func(s *scene) {
		for i := range 12 {
			a := s.agent(time.Duration(i) * 3 * time.Second).system("You are a coding agent.").user("Fix issue 12.")
			for k := range 8 {
				a.call("bash", fmt.Sprintf(`{"command":"cat file%d.go"}`, k), fmt.Sprintf("package file%d", k), time.Second)
			}
			a.call("bash", fmt.Sprintf(`{"command":"echo %d"}`, i), fmt.Sprint(i), time.Second).answer(fmt.Sprint("done by ", i))
		}
	}},
	{name: "twenty researchers", play: func(s *scene) {
		for i := range 20 {
			a := s.agent(time.Duration(i%5) * time.Second).system("You are a researcher.").user(fmt.Sprintf("Research company %c%c and report revenue, staff and seat.", 'A'+i, 'a'+i))
			for k := range 4 {
				a.call("web_search", fmt.Sprintf(`{"query":"company %c%c %s"}`, 'A'+i, 'a'+i, strings.Fields("revenue staff seat news")[k]), fmt.Sprintf("result %d-%d", i, k), time.Second)
			}
			a.answer("Report.")
		}
	}},
	{name: "five samples of each problem, one by one", play: func(s *scene) {
		a := s.agent(0)
		for i := range 20 {
			a.conv = nil
			a.user(fmt.Sprintf("Problem %d: write a function that returns the %d-th prime.", i, i))
			for range 5 {
				a.ask()
			}
		}
	}},
	{name: "ten samples of each problem by four workers", play: func(s *scene) {
		for w := range 4 {
			a := s.agent(time.Duration(w) * 700 * time.Millisecond)
			for i := w; i < 200; i += 4 {
				a.conv = nil
				a.user(fmt.Sprintf("Problem %c: write the function.", 'A'+i/10)).ask()
			}
		}
	}},
	{name: "three votes of a judge", play: func(s *scene) {
		a := s.agent(0)
		for i := range 30 {
			for range 3 {
				a.conv = nil
				a.system("Judge A or B.").user(fmt.Sprintf("A: answer %d is red. B: answer %d is blue.", i, i+7)).ask()
			}
		}
	}},
	{name: "five samples of second turns", play: func(s *scene) {
		for i := range 50 {
			a := s.agent(time.Duration(i/5) * 9 * time.Second).user(fmt.Sprintf("Question %d", i/5)).add(message{role: "assistant", text: "The answer is long."})
			a.user("Rewrite it in pirate speak.").ask()
		}
	}},
	{name: "a benchmark that is run ten times", play: func(s *scene) {
		a := s.agent(0).user("Run the benchmark ten times, and tell me the mean.")
		for i := range 10 {
			a.call("bash", `{"command":"./bench"}`, fmt.Sprintf("elapsed: %d.%03d s", 1+i%2, i*137%1000), 3*time.Second)
		}
	}, hints: 3, nod: "could be one command"},
	{name: "a benchmark of Go that is run ten times", play: func(s *scene) {
		a := s.agent(0).user("Is the change faster?")
		for i := range 10 {
			a.call("bash", `{"command":"go test -bench Parse"}`, fmt.Sprintf("BenchmarkParse-8   \t %d\t      %d ns/op\nPASS\nok  \tx\t1.%02ds", 1000+i*37, 1100+i*13, i), 3*time.Second)
		}
	}, hints: 3, nod: "could be one command"},
	{name: "a test with sixteen seeds", play: func(s *scene) {
		a := s.agent(0).user("Is it flaky? Try some seeds.")
		for i := range 16 {
			a.call("bash", fmt.Sprintf(`{"command":"pytest -q --seed %d"}`, i), fmt.Sprintf("1 passed in 0.%02ds", i), 2*time.Second)
		}
	}},
	{name: "a search for hyperparameters", play: func(s *scene) {
		a := s.agent(0).user("Find good hyperparameters.")
		for i := range 16 {
			a.call("bash", fmt.Sprintf(`{"command":"python train.py --lr 0.%d --layers %d"}`, 1+i%4, 2+i/4), fmt.Sprintf("epoch 10 loss 0.%d accuracy 0.%d", 9000-i*311, 7000+i*97), 20*time.Second)
		}
	}},
	{name: "shops that do not have it", play: func(s *scene) {
		a := s.agent(0).user("Which of the shops has the lamp?")
		for i := range 14 {
			a.call("fetch", fmt.Sprintf(`{"url":"https://shop%d.example.com/lamp?id=%d"}`, i, 100+i), "Out of stock", time.Second)
		}
	}, hints: 0},
	{name: "items of one shop that are sold out", play: func(s *scene) {
		a := s.agent(0).user("Which of the lamps can be had?")
		for i := range 14 {
			a.call("fetch", fmt.Sprintf(`{"url":"https://shop.example.com/item?id=%d"}`, 1000+i), "Out of stock", time.Second)
		}
	}, hints: 0},
	{name: "domains that are free", play: func(s *scene) {
		a := s.agent(0).user("Find taken names.")
		for _, n := range names(14) {
			a.call("whois", fmt.Sprintf(`{"domain":"%s.com"}`, n), "No match for domain.", time.Second)
		}
	}, hints: 3, nod: "nothing is found"},
	{name: "one invitation to many", play: func(s *scene) {
		a := s.agent(0).user("Invite them all.")
		for _, n := range names(20) {
			a.call("send_email", fmt.Sprintf(`{"to":"%s@example.com","subject":"Party","body":"Please come to the party on Friday at eight. Bring friends and cake."}`, n), "sent", time.Second)
		}
	}},
	{name: "the nodes of twelve clusters", play: func(s *scene) {
		a := s.agent(0).user("Are all clusters healthy?")
		for i := range 12 {
			a.call("bash", fmt.Sprintf(`{"command":"kubectl --context c%d get nodes"}`, i), "NAME STATUS\nnode-1 Ready\nnode-2 Ready\nnode-3 Ready", time.Second)
		}
	}},
	{name: "an order with each webhook", play: func(s *scene) {
		for i := range 60 {
			s.agent(time.Duration(i) * 4 * time.Second).system("You decide whether an order is fraud.").user(fmt.Sprintf(`{"event":"order.created","at":"2026-03-02T09:%02d:%02dZ","id":"evt_%08x","order":{"id":%d,"total":"%d.90"}}`, i*4/60, i*4%60, 7919*i+3, 10000+i*17, 10+i%5)).ask()
		}
	}},
	{name: "webhooks that differ in ids", play: func(s *scene) {
		for i := range 30 {
			s.agent(time.Duration(i) * 10 * time.Second).system("You decide whether an order is fraud.").user(fmt.Sprintf(`{"event":"order.created","at":"2026-03-02T09:%02d:%02dZ","id":"evt_%08x"}`, i*10/60, i*10%60, 7919*i+3)).ask()
		}
	}},
	{name: "a rate limit, with a sleep after each try", play: func(s *scene) {
		a := s.agent(0).user("Sync the contacts.")
		for range 4 {
			a.call("crm", `{"op":"list"}`, "429 Too Many Requests, retry after 30 s", time.Second).call("sleep", `{"seconds":30}`, "", 30*time.Second)
		}
		a.call("crm", `{"op":"list"}`, "contacts: 40", time.Second)
	}, hints: 3, nod: "it waits"},
	{name: "a rate limit, with ever longer pauses", play: func(s *scene) {
		a := s.agent(0).user("Sync the contacts.")
		for i := range 6 {
			a.call("crm", `{"op":"list"}`, "Error: 429 Too Many Requests", time.Duration(5<<i)*time.Second)
		}
		a.call("crm", `{"op":"list"}`, "contacts: 40", time.Second)
	}, hints: 3, nod: "it waits"},
	{name: "a download with ever longer pauses", play: func(s *scene) {
		a := s.agent(0).user("Get the data.")
		for i := range 4 {
			a.call("bash", `{"command":"wget https://example.com/data.zip"}`, "wget: unable to resolve host", time.Duration(5<<i)*time.Second)
		}
		a.call("bash", `{"command":"wget https://example.com/data.zip"}`, "saved", time.Second)
	}, hints: 2, nod: "fails alike"},
	{name: "five edits after which a test fails alike", play: func(s *scene) {
		a := s.agent(0).user("Fix it.")
		for i := range 5 {
			a.call("edit", fmt.Sprintf(`{"path":"a.go","old":"%d","new":"%d"}`, i, i+1), "edited", time.Second).call("bash", `{"command":"go test"}`, "--- FAIL: TestA\n    a_test.go:7: got 1, want 2", 5*time.Second)
		}
	}},
	{name: "strings that are translated six at a time", play: func(s *scene) {
		a := s.agent(0).user("Translate.")
		for i := range 10 {
			var calls []call
			var results []result
			for k := range 6 {
				calls = append(calls, call{"set_string", fmt.Sprintf(`{"key":"k%d","value":"%s"}`, i*6+k, names(60)[i*6+k])})
				results = append(results, result{text: "ok"})
			}
			a.calls(calls, results, time.Second)
		}
	}},
	{name: "subtitles", play: func(s *scene) {
		for i := range 40 {
			s.agent(time.Duration(i) * 2 * time.Second).system("Translate the subtitle.").user([]string{"Yes.", "No!", "What?", "I know.", "Come on.", "Hm.", "Stop!"}[i*i%7]).ask()
		}
	}},
	{name: "moderation of a chat in one session", play: func(s *scene) {
		for i := range 60 {
			a := s.agent(time.Duration(i) * 2 * time.Second).named("moderator")
			a.think = 500 * time.Millisecond
			a.system("Reply allow or deny.").user([]string{"lol", "gg", "nice", "hi", "lol", "wp", "ok", "lol", "brb"}[i*i%9] + []string{"", "", "!", " " + fmt.Sprint(i)}[i%4]).ask()
		}
	}},
	{name: "one alert each minute", play: func(s *scene) {
		for i := range 20 {
			s.agent(time.Duration(i)*time.Minute).system("Triage the alert.").user("ALERT DiskFull host=db1").call("get_metric", `{"name":"disk"}`, fmt.Sprintf("%d%%", 90+i%3), time.Second).answer("Clean up.")
		}
	}},
	{name: "a storm of alerts", play: func(s *scene) {
		for i := range 40 {
			s.agent(time.Duration(i) * 3 * time.Second).system("Triage the alert.").user(fmt.Sprintf("ALERT DiskFull host=db%d", 1+i*7%11)).ask()
		}
	}},
	{name: "an approval that takes two hours", play: polls(120, time.Minute, "get_approval", `{"id":"a-1"}`, `{"state":"pending"}`), hints: 20, nod: "waits"},
	{name: "a message that does not come", play: polls(100, 65*time.Second, "wait_for_message", `{"timeout":60}`, "timeout: no message"), hints: 20, nod: "waits"},
	{name: "resources that are created", play: polls(40, 25*time.Second, "bash", `{"command":"terraform show -json | jq .state"}`, `"creating"`), hints: 5, nod: "waits"},
	{name: "a machine that starts", play: polls(12, 15*time.Second, "bash", `{"command":"ssh -o ConnectTimeout=5 vm true"}`, "ssh: connect to host vm port 22: Connection refused"), hints: 4, nod: "waits"},
	{name: "a site that is deployed", play: polls(15, 20*time.Second, "http_request", `{"method":"GET","url":"https://staging.example.com/version"}`, `{"version":"1.4.1"}`), hints: 4, nod: "waits"},
	{name: "a training that is watched", play: func(s *scene) {
		a := s.agent(0).user("Watch the training.")
		for i := range 20 {
			a.call("bash", `{"command":"nvidia-smi --query-gpu=utilization.gpu --format=csv"}`, "utilization.gpu [%]\n99 %", time.Second).call("bash", `{"command":"tail -1 train.log"}`, fmt.Sprintf("step %d loss 2.%d", 100*i, 900-i), 60*time.Second)
		}
	}},
	{name: "an upload on a screen", play: func(s *scene) {
		a := s.agent(0).user("Wait until the upload is through.")
		for range 15 {
			a.call("screenshot", `{}`, "", 25*time.Second, page(0))
		}
	}, hints: 4, nod: "waits"},
	{name: "a query for each customer", play: func(s *scene) {
		a := s.agent(0).user("Who of them has open bills?")
		for i := range 20 {
			a.call("sql", fmt.Sprintf(`{"query":"SELECT count(*) FROM bills WHERE customer = %d AND open"}`, 500+i*3), "count\n0", time.Second)
		}
	}, hints: 0},
	{name: "a free day", play: func(s *scene) {
		a := s.agent(0).user("Find a free day in March.")
		for i := range 20 {
			a.call("list_events", fmt.Sprintf(`{"date":"2026-03-%02d"}`, i+1), `{"events":[]}`, time.Second)
		}
	}, hints: 3, nod: "nothing is found"},
	{name: "functions that nothing calls", play: func(s *scene) {
		a := s.agent(0).user("Which functions are never used?")
		for _, n := range names(20) {
			a.call("bash", fmt.Sprintf(`{"command":"grep -rn '%s(' src | grep -v func"}`, n), "", time.Second)
		}
	}, hints: 3, nod: "nothing is found"},
	{name: "messages for a commit that is amended", play: func(s *scene) {
		for i := range 12 {
			s.agent(time.Duration(i) * 15 * time.Second).user("Write a commit message for this diff:\n" + linesOf(0, 40) + fmt.Sprintf("+ line %d\n", i)).ask()
		}
	}},
	{name: "pages of one document in one session", play: func(s *scene) {
		a := s.agent(0).named("extract").system("Extract the fields.")
		for i := range 30 {
			a.again().user(fmt.Sprintf("Page %d of 30:\nTotal: %d.00 EUR\nVAT: 19 %%", i+1, i*13)).answer(fmt.Sprintf(`{"total":%d}`, i*13))
		}
	}},
}

// names returns n different words.
func names(n int) []string {
	var out []string
	for i := range n {
		out = append(out, string([]byte{"bdfgklmnprst"[i%12], "aeiou"[i%5], "lmnrstvz"[i/3%8], "aeiou"[i/7%5], "bdkst"[i/11%5]}))
	}
	return out
}
