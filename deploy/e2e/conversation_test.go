package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// promptAlone is the prompt detector by its defaults, and no other.
const promptAlone = "bundle_version: 1\npolicies:\n  - {id: prompts, spec: {prompt: {}}}\n"

// turn is a round of tool calls in Chat Completions: the model's message and the
// results.
func turn(calls []string, results ...string) string {
	var made, got []string
	for i, args := range calls {
		name, arguments, _ := strings.Cut(args, " ")
		made = append(made, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, i, name, arguments))
		got = append(got, fmt.Sprintf(`{"role":"tool","tool_call_id":"c%d","content":%q}`, i, results[i]))
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(made, ",") + `]},` + strings.Join(got, ",")
}

// session is what an agent sends, turn after turn, with its whole history.
func session(system, task string, turns []string) []call {
	history := fmt.Sprintf(`{"role":"system","content":%q},{"role":"user","content":%q}`, system, task)
	calls := []call{chat(`{"model":"m","messages":[` + history + `]}`)}
	for _, turn := range turns {
		history += "," + turn
		calls = append(calls, chat(`{"model":"m","messages":[`+history+`]}`))
	}
	return calls
}

func many(n int, turn func(i int) []string) (all []string) {
	for i := range n {
		all = append(all, turn(i)...)
	}
	return all
}

// stoppedAt sends the calls and returns which of them, counted from 1, is the first
// that is stopped; 0 for none.
func stoppedAt(t *testing.T, url string, calls []call) int {
	t.Helper()
	for i, c := range calls {
		if a := send(t, url, c); a.status != http.StatusOK {
			return i + 1
		}
	}
	return 0
}

func TestProgressBeforeTheSameResultsIsSeen(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, promptAlone)).URL()
	none := []string{"[]", "[]", "[]"}
	for name, c := range map[string]struct {
		turns []string
		stops bool
	}{
		"three searches a turn, ever new": {turns: many(15, func(i int) []string {
			return []string{turn([]string{fmt.Sprintf(`find {"q":"a%d"}`, i), fmt.Sprintf(`find {"q":"b%d"}`, i), fmt.Sprintf(`find {"q":"c%d"}`, i)}, none...)}
		})},
		"three searches a turn, the same": {stops: true, turns: many(15, func(int) []string {
			return []string{turn([]string{`find {"q":"a"}`, `find {"q":"b"}`, `find {"q":"c"}`}, none...)}
		})},
		"an edit before the same failing test": {turns: many(15, func(i int) []string {
			return []string{turn([]string{fmt.Sprintf(`edit {"to":"v%d"}`, i)}, "ok"), turn([]string{`run {"cmd":"test"}`}, "1 failed")}
		})},
		"an edit and a lint before the same failing test": {turns: many(15, func(i int) []string {
			return []string{
				turn([]string{fmt.Sprintf(`edit {"to":"v%d"}`, i)}, "ok"), turn([]string{`run {"cmd":"lint"}`}, "clean"), turn([]string{`run {"cmd":"test"}`}, "1 failed"),
			}
		})},
		"a lint and the same failing test without an edit": {stops: true, turns: many(15, func(int) []string {
			return []string{turn([]string{`read {"f":"a"}`}, "text"), turn([]string{`run {"cmd":"lint"}`}, "clean"), turn([]string{`run {"cmd":"test"}`}, "1 failed")}
		})},
		"forty calls a turn, ever new": {turns: many(8, func(i int) []string {
			var calls, results []string
			for k := range 40 {
				calls, results = append(calls, fmt.Sprintf(`find {"q":"%d"}`, 40*i+k)), append(results, "[]")
			}
			return []string{turn(calls, results...)}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if at := stoppedAt(t, url, session("You fix code.", name, c.turns)); (at > 0) != c.stops {
				t.Errorf("stopped at request %d; want a stop: %v", at, c.stops)
			}
		})
	}
}

// Sub-agents that one caller starts with tasks of their own begin alike.
func TestAgentsThatBegunOtherwiseAreCountedApart(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	look := []string{turn([]string{`sh {"cmd":"pwd"}`}, "/repo"), turn([]string{`sh {"cmd":"ls"}`}, "main.go")}
	for i := range 7 {
		calls := session(fmt.Sprintf("You are sub-agent %d.", i), fmt.Sprintf("Look after part %d of the repository.", i), look)
		if at := stoppedAt(t, url, calls); at > 0 {
			t.Errorf("agent %d: request %d was stopped", i+1, at)
		}
	}
}

func TestClocksAndIDsOfTheBeginningDoNotCount(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, promptAlone)).URL()
	look := []string{turn([]string{`sh {"cmd":"pwd"}`}, "/repo"), turn([]string{`sh {"cmd":"ls"}`}, "main.go")}
	var got []int
	for i := range 6 {
		calls := session(fmt.Sprintf("You are an agent. It is 2026-05-22T14:3%d:00Z.", i),
			fmt.Sprintf("Job 1b4e28ba-2fa1-11d2-883f-0016d3cca42%d at 14:3%d:07: look around.", i, i), look)
		got = append(got, send(t, url, calls[len(calls)-1]).status)
	}
	if diff := cmp.Diff(ok(5, http.StatusTooManyRequests), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Prompts with a history are counted together, first requests for each session alone.
func TestNamedSessionsAreCountedApartAndTogetherAtTwiceTheCount(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t)).URL()
	for i := range 22 {
		if a := send(t, url, prompt("best of many").with("X-Session-ID", fmt.Sprint("sample ", i))); a.status != http.StatusOK {
			t.Errorf("the first request of session %d: status %d", i+1, a.status)
		}
	}
	again := chat(`{"model":"m","messages":[{"role":"user","content":"Plan a dinner"},{"role":"assistant","content":"For whom?"},{"role":"user","content":"For six guests"}]}`)
	var got []int
	for i := range 11 {
		a := send(t, url, again.with("X-Session-ID", fmt.Sprint("run ", i)))
		got = append(got, a.status)
		if i == 10 {
			if d := a.refusal(t).Detail; d.HitCount != 11 || !strings.Contains(d.Message, "sessions") {
				t.Errorf("detail %+v; want the eleventh of the sessions together", d)
			}
		}
	}
	if diff := cmp.Diff(ok(10, http.StatusTooManyRequests), got); diff != "" {
		t.Errorf("one prompt of eleven sessions (-want +got):\n%s", diff)
	}
	own := prompt("stuck").with("X-Session-ID", "one")
	if diff := cmp.Diff(append(ok(5), slices.Repeat([]int{429}, 15)...), statuses(t, url, own, 20)); diff != "" {
		t.Errorf("one session's loop (-want +got):\n%s", diff)
	}
	if a := send(t, url, prompt("stuck").with("X-Session-ID", "another")); a.status != http.StatusOK {
		t.Errorf("another session after one session's loop: status %d", a.status)
	}
}

func TestScopeCallerCountsAllSessionsTogether(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, strings.Replace(promptAlone, "prompt: {}", "prompt: {scope: caller}", 1))).URL()
	var got []int
	for i := range 6 {
		got = append(got, send(t, url, prompt("again").with("X-Session-ID", fmt.Sprint(i))).status)
	}
	if diff := cmp.Diff(ok(5, http.StatusTooManyRequests), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Where the provider keeps the history, a request shows its end alone.
func TestConversationsThatTheProviderKeepsAreCountedApart(t *testing.T) {
	t.Parallel()
	url := start(t, responses(t), policies(t, promptAlone)).URL()
	for i := range 8 {
		c := chat(fmt.Sprintf(`{"model":"m","conversation":"conv_%d","input":"yes"}`, i))
		c.path = "/v1/responses"
		if a := send(t, url, c); a.status != http.StatusOK {
			t.Errorf("the yes of conversation %d: status %d", i+1, a.status)
		}
	}
}

func TestCallsThatTheProviderKeepsBelongToThePrompt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arguments func(n int) string
		want      []int
	}{
		"another file each turn": {func(n int) string { return fmt.Sprintf(`{"file":"f%d.go"}`, n) }, ok(12)},
		"the same file":          {func(int) string { return `{"file":"f.go"}` }, ok(6, 429)},
	} {
		for _, kept := range []string{`"previous_response_id":"resp_%08d",`, `"conversation":"conv_1",`} {
			t.Run(name+kept, func(t *testing.T) {
				t.Parallel()
				url := start(t, keep(t, c.arguments).url, policies(t, promptAlone)).URL()
				var got []int
				for n := range len(c.want) {
					from := kept
					if strings.Contains(kept, "%") {
						from = ""
						if n > 0 {
							from = fmt.Sprintf(kept, n)
						}
					}
					got = append(got, send(t, url, delta(n, "File written.", from, false)).status)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("by request (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A client that waits as it is told passes, and not much earlier.
func TestRetryAfterIsWhenTheRequestPasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gap  time.Duration // between the six prompts
		more int           // hits on the standing block, a second apart
		want int           // seconds
	}{
		"all at once":           {0, 0, 60},
		"spread over a minute":  {9 * time.Second, 0, 30},
		"hammering on":          {0, 3, 57},
		"hammering on for long": {0, 8, 56},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var at clock
			url := start(t, echo(t), at.set, policies(t, promptAlone)).URL()
			var a answered
			for i := range 6 + c.more {
				if i > 5 {
					at.advance(time.Second)
				} else if i > 0 {
					at.advance(c.gap)
				}
				a = send(t, url, prompt("again"))
			}
			wait := seconds(t, a)
			if wait < c.want || wait > c.want+c.want/10 {
				t.Fatalf("Retry-After %d, want %d and up to a tenth", wait, c.want)
			}
			at.advance(time.Duration(wait) * time.Second)
			if got := send(t, url, prompt("again")); got.status != http.StatusOK {
				t.Errorf("after the time it was told: status %d", got.status)
			}
		})
	}
}

func TestThirdIdenticalRoundOfAHistoryIsHinted(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, promptAlone)).URL()
	action := func(c call) string { return send(t, url, c).header.Get("X-Loop-Action") }
	round := `{"role":"assistant","content":"I will look at the file."},{"role":"user","content":"Go on."}`
	var got []string
	for _, c := range session("You fix code.", "Fix it.", many(5, func(int) []string { return []string{round} })) {
		got = append(got, action(c))
	}
	if diff := cmp.Diff([]string{"", "", "", "hint", "hint", "hint"}, got); diff != "" {
		t.Errorf("rounds (-want +got):\n%s", diff)
	}
	for i := range 5 {
		if a := action(prompt("a sample of one prompt")); a != "" {
			t.Errorf("sample %d: action %q", i+1, a)
		}
	}
	stuck := session("You fix code.", "Fix it once.", many(3, func(int) []string { return []string{round} }))
	if a, b, c := action(stuck[2]), action(stuck[3]), action(stuck[3]); a != "" || b != "hint" || c != "" {
		t.Errorf("two rounds, a hint, and the same request again: %q, %q, %q", a, b, c)
	}
	woken := session("You fix code.", "Fix it now and then.", many(3, func(int) []string { return []string{round} }))
	if a := action(woken[3]); a != "" {
		t.Errorf("rounds whose pace nobody saw: %q", a)
	}
}

func TestSlowRepeatsAreWarnedOf(t *testing.T) {
	t.Parallel()
	var at clock
	url := start(t, echo(t), at.set, policies(t, promptAlone)).URL()
	for _, named := range []string{"", "sub-agent "} {
		var got []string
		for i := range 10 {
			at.advance(5 * time.Minute)
			c := session("You search.", named+"Find the bug.", nil)[0]
			if named != "" {
				c = c.with("X-Session-ID", fmt.Sprint(named, i))
			}
			got = append(got, send(t, url, c).header.Get("X-Loop-Action"))
		}
		if diff := cmp.Diff(append(make([]string, 9), "warn"), got); diff != "" {
			t.Errorf("sessions named %q (-want +got):\n%s", named, diff)
		}
	}
}

func TestTwoModelsInTurnAreWarnedOfAndNeverRejected(t *testing.T) {
	t.Parallel()
	url := start(t, echo(t), policies(t, promptAlone)).URL()
	var got []string
	for i := range 10 {
		a := send(t, url, chat(fmt.Sprintf(`{"model":"model-%d","messages":[{"role":"user","content":"go"}]}`, i%2)))
		if a.status != http.StatusOK {
			t.Errorf("request %d: status %d", i+1, a.status)
		}
		got = append(got, a.header.Get("X-Loop-Action"))
	}
	if diff := cmp.Diff(append(make([]string, 3), slices.Repeat([]string{"warn"}, 7)...), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
