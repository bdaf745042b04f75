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
	e := Of(a.input(c.t, c.set))
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

// strongestStep returns the strongest action of a counter.
func strongestStep(c *checkpb.Counter) (a checkpb.Action) {
	for _, s := range c.GetSteps() {
		a = max(a, s.GetAction())
	}
	return a
}

func TestAWorkloadIsWarnedOfAtTheMost(t *testing.T) {
	t.Parallel()
	const stop, warn = checkpb.Action_ACTION_REJECT, checkpb.Action_ACTION_WARN
	mixed := func(c *client, others int) {
		for i := range others {
			c.sendAll(1, question(100+i))
		}
	}
	for name, c := range map[string]struct {
		prompt string
		others int // before five equal ones
		after  time.Duration
		ask    asked
		want   checkpb.Action
	}{
		"alone":                      {"{}", 0, 0, question(1), stop},
		"half":                       {"{}", 6, 0, question(1), stop},
		"less than half":             {"{}", 7, 0, question(1), warn},
		"few, of a higher threshold": {"{max_hits: 9}", 7, 0, question(1), stop},
		"less than half, long ago":   {"{}", 7, time.Hour, question(1), stop},
		"a session of its own":       {"{}", 50, 0, asked{body: question(1).body, session: "s"}, stop},
		"a prompt with history":      {"{}", 50, 0, asked{body: goneOn(chat)}, stop},
		"a long window":              {"{window_seconds: 7200}", 7, time.Hour, question(1), warn},
		"each counts":                {"{count_each: true}", 50, 0, question(1), stop},
		"an escalation":              {"{escalation: [{at: 3, action: hint}, {at: 5, action: reject}]}", 50, 0, question(1), warn},
		"more than are remembered":   {"{}", 3 * maxOpenings, 0, question(1), warn},
		"an operator's own warning":  {"{action: warn}", 0, 0, question(1), warn},
	} {
		client := newClient(t, c.prompt)
		mixed(client, c.others)
		client.now = client.now.Add(c.after)
		client.sendAll(5, c.ask) // a round of samples
		_, counter := client.send(c.ask)
		if got := strongestStep(counter); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if (counter.GetCooldownSeconds() > 0) != (c.want == stop || name == "an operator's own warning") {
			t.Errorf("%s: cooldown of %d s", name, counter.GetCooldownSeconds())
		}
	}
}

// Visitors who say the same at first are a workload if their conversations go on.
func TestConversationsThatGoOnAreAWorkload(t *testing.T) {
	t.Parallel()
	const stop, warn = checkpb.Action_ACTION_REJECT, checkpb.Action_ACTION_WARN
	for name, c := range map[string]struct {
		goesOn func(i int) bool
		want   checkpb.Action
	}{
		"all":      {func(int) bool { return true }, warn},
		"most":     {func(i int) bool { return i%4 > 0 }, warn},
		"few":      {func(i int) bool { return i%4 == 0 }, stop},
		"none":     {func(int) bool { return false }, stop},
		"but peek": {func(int) bool { return false }, stop},
	} {
		client := newClient(t, "{}")
		next := asked{body: goneOn(question(1).body)}
		if name == "but peek" {
			next.set = func(in *Input) { in.Peek = true }
		}
		for i := range 12 {
			client.sendAll(1, question(1))
			if c.goesOn(i) || name == "but peek" {
				client.sendAll(1, next)
				client.sendAll(1, next) // the second time adds nothing
			}
			client.now = client.now.Add(4 * time.Second)
		}
		if _, counter := client.send(question(1)); strongestStep(counter) != c.want {
			t.Errorf("%s: %s, want %s", name, strongestStep(counter), c.want)
		}
	}
}

// What comes in a row, each after an answer, is a loop, whatever the caller sent before.
func TestARowOfRoundsIsNoWorkload(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]int{"in a row": 0, "with another in between": 1} {
		c := newClient(t, "{}")
		for i := range 50 {
			c.sendAll(1, question(100+i))
		}
		var last *checkpb.Counter
		for i := range 6 {
			if i == 3 {
				c.sendAll(between, question(200))
			}
			var e *Evidence
			e, last = c.send(question(1))
			c.memory.Answered(&e.Waiting)
		}
		if stops := strongestStep(last).Stops(); stops != (between == 0) {
			t.Errorf("%s: stops %t", name, stops)
		}
	}
}

func TestPeeksAreNoWorkload(t *testing.T) {
	t.Parallel()
	c := newClient(t, "{}")
	for i := range 20 {
		peek := question(200 + i)
		peek.set = func(in *Input) { in.Peek = true }
		c.sendAll(1, peek)
	}
	if _, counter := c.send(question(1)); strongestStep(counter) != checkpb.Action_ACTION_REJECT {
		t.Errorf("%v", counter)
	}
	for _, list := range c.memory.openings {
		if len(list) != 1 {
			t.Errorf("%d first requests are known", len(list))
		}
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

func TestOpenersAreBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	for i := range maxOpeners + 5 {
		m.openingsOf(fmt.Sprint(i), opening{prompt: 1, at: start}, time.Minute, true)
	}
	if len(m.openings) != maxOpeners {
		t.Errorf("%d openers are known, want %d", len(m.openings), maxOpeners)
	}
}

func TestAWorkloadNeedsConversationsThatWentOn(t *testing.T) {
	t.Parallel()
	const row = 6
	ended, sample, on := opening{prompt: 1}, opening{prompt: 1, sample: true}, opening{prompt: 1, wentOn: true}
	for name, c := range map[string]struct {
		list []opening
		want bool
	}{
		"one that began":            {[]opening{ended}, false},
		"samples alone":             {[]opening{sample, sample}, false},
		"most went on":              {[]opening{on, on, ended}, true},
		"most did not":              {[]opening{on, ended, ended}, false},
		"a row that did not":        {slices.Concat(slices.Repeat([]opening{on}, 2*row), slices.Repeat([]opening{ended}, row)), false},
		"samples that went on, too": {[]opening{on, sample, sample}, true},
	} {
		if got := isWorkload(c.list, row); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
