package evidence

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/unloop/unloop/gateway/internal/rules/bundle"
	"github.com/unloop/unloop/schemas/checkpb"
)

// client sends requests to one gateway.
type client struct {
	t      *testing.T
	set    *bundle.Set
	memory *Memory
	now    time.Time
}

func newClient(t *testing.T, prompt string) *client {
	t.Helper()
	return &client{t, policies(t, "{prompt: "+prompt+"}"), NewMemory(), start}
}

// send returns the evidence of a request that is in flight from now on, and its counter.
func (c *client) send(a asked) (*Evidence, *checkpb.Counter) {
	c.t.Helper()
	set := a.set
	a.caller, a.set = "k", func(in *Input) {
		in.Memory, in.Now = c.memory, c.now
		if set != nil {
			set(in)
		}
	}
	e := Build(a.input(c.t, c.set))
	return &e, e.Check.GetCounters()[0]
}

// sendAll sends requests that are in flight together, and returns how many count.
func (c *client) sendAll(n int, a asked) (counted int) {
	all := make([]*Evidence, n)
	for i := range all {
		var counter *checkpb.Counter
		if all[i], counter = c.send(a); !counter.GetSample() {
			counted++
		}
	}
	for _, e := range all {
		c.memory.Answered(&e.Waiting)
	}
	return counted
}

func question(n int) asked {
	return asked{body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"Question %d?"}]}`, n)}
}

func TestRequestsInFlightTogetherAreOneRound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt string
		ask    asked
		sends  []int // together, one after the other
		rounds int
	}{
		"one after the other":  {"{}", question(1), []int{1, 1, 1, 1, 1, 1}, 6},
		"eight samples":        {"{}", question(1), []int{8}, 1},
		"samples with history": {"{}", asked{body: goneOn(chat)}, []int{8}, 1},
		"rounds of samples":    {"{}", question(1), []int{8, 8, 8}, 3},
		"a runaway burst":      {"{}", question(1), []int{100, 100}, 8},
		"fewer samples":        {"{samples: 5}", question(1), []int{11}, 3},
		"no samples":           {"{samples: 1}", question(1), []int{7}, 7},
		"each counts":          {"{count_each: true}", question(1), []int{7}, 7},
	} {
		client, rounds := newClient(t, c.prompt), 0
		for _, n := range c.sends {
			rounds += client.sendAll(n, c.ask)
		}
		if rounds != c.rounds {
			t.Errorf("%s: %d rounds, want %d", name, rounds, c.rounds)
		}
		if left := len(client.memory.flights); left > 0 {
			t.Errorf("%s: %d rounds are in flight after all answers", name, left)
		}
	}
}

// A request that comes before the last answer of a round still belongs to it.
func TestARoundEndsWithItsLastAnswer(t *testing.T) {
	t.Parallel()
	c := newClient(t, "{}")
	first, _ := c.send(question(1))
	second, _ := c.send(question(1))
	c.memory.Answered(&first.Waiting)
	c.memory.Answered(&first.Waiting) // it hung up, too
	third, sample := c.send(question(1))
	if _, peek := c.send(asked{body: question(1).body, set: func(in *Input) { in.Peek = true }}); !sample.GetSample() || !peek.GetSample() {
		t.Error("a request beside the second is no sample")
	}
	c.memory.Answered(&second.Waiting)
	c.memory.Answered(&third.Waiting)
	if _, next := c.send(question(1)); next.GetSample() {
		t.Error("the round went on after its last answer")
	}
}

// Workers that send one prompt again and again, so that it is always in flight, are no set
// of samples after two windows: each time that they were answered counts.
func TestAPromptThatIsAlwaysInFlightCounts(t *testing.T) {
	t.Parallel()
	c := newClient(t, "{}")
	var open *Evidence
	var at []time.Duration // since the beginning, of the requests that counted
	for range 100 {
		next, counter := c.send(question(1))
		if !counter.GetSample() {
			at = append(at, c.now.Sub(start))
		}
		if open != nil {
			c.memory.Answered(&open.Waiting)
		}
		open = next
		c.now = c.now.Add(3 * time.Second)
	}
	if len(at) < 20 || at[0] != 0 || at[1] < 96*time.Second {
		t.Fatalf("%d requests of 100 count, at %v", len(at), at)
	}
	if n := len(at); at[n-1]-at[n-6] >= time.Minute {
		t.Errorf("the last six that count took %v, want less than a window", at[n-1]-at[n-6])
	}
}

// So does a prompt whose answers take so long that it is sent again before each: from the
// time on at which it was sent as often as samples may be in one window.
func TestAPromptThatIsAlwaysSentBeforeItsAnswerCounts(t *testing.T) {
	t.Parallel()
	c := newClient(t, "{}")
	var open []*Evidence
	var counted []int
	for i := range 180 {
		next, counter := c.send(question(1))
		if open = append(open, next); !counter.GetSample() {
			counted = append(counted, i)
		}
		if len(open) > 6 {
			c.memory.Answered(&open[0].Waiting)
			open = open[1:]
		}
		c.now = c.now.Add(10 * time.Second)
	}
	const often = 32 * 5
	for i := often + 1; i < 180; i++ {
		if !slices.Contains(counted, i) {
			t.Errorf("request %d does not count", i)
		}
	}
	if early := slices.IndexFunc(counted, func(i int) bool { return i > often }); early > often/5 {
		t.Errorf("of the first %d requests, %d count", often, early)
	}
}

func TestSamplesAreThoseOfOneSessionAndModel(t *testing.T) {
	t.Parallel()
	c := newClient(t, "{}")
	for i, a := range []asked{question(1), question(2), {body: question(1).body, session: "s"}} {
		if _, counter := c.send(a); counter.GetSample() {
			t.Errorf("request %d is a sample of another", i)
		}
	}
}

// What a request shows of its beginning goes to the detector, which knows the caller's others.
func TestOpeningsNameHowAConversationBegan(t *testing.T) {
	t.Parallel()
	c, one := newClient(t, "{}"), question(1)
	opening := func(a asked) *checkpb.Opening {
		_, counter := c.send(a)
		return counter.GetOpening()
	}
	first, later, other := opening(one), opening(asked{body: goneOn(one.body)}), opening(question(2))
	if !first.GetFirst() || first.GetMessages() != 1 || first.GetNamed() || first.GetBegin() == 0 || first.GetBegin() == other.GetBegin() {
		t.Errorf("a first request: %v; another: %v", first, other)
	}
	if later.GetFirst() || later.GetMessages() != 3 || later.GetBegin() != first.GetBegin() {
		t.Errorf("the next: %v, after %v", later, first)
	}
	if named := opening(asked{body: one.body, session: "s"}); !named.GetNamed() {
		t.Errorf("a session of its own: %v", named)
	}
	if _, counter := newClient(t, "{count_each: true}").send(one); counter.GetOpening().GetBegin() != 0 || counter.GetOpening().GetFirst() {
		t.Errorf("where each counts: %v", counter)
	}
	theirs := asked{body: one.body, caller: "another"}.of(t, c.set)
	if theirs.Check.GetCounters()[0].GetOpening().GetBegin() == first.GetBegin() {
		t.Error("two callers' equal prompts have one name")
	}
}

// Sessions that name themselves are not added up for first requests.
func TestFirstRequestsOfNamedSessionsAreCountedApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prompt, body string
		together     bool
	}{
		"a first request": {"{}", chat, false},
		"with history":    {"{}", goneOn(chat), true},
		"each counts":     {"{count_each: true}", chat, true},
	} {
		client := newClient(t, c.prompt)
		if _, counter := client.send(asked{body: c.body, session: "s"}); (counter.GetTogether() != nil) != c.together {
			t.Errorf("%s: %v", name, counter)
		}
	}
}
