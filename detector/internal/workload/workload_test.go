package workload

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas/checkpb"
)

const (
	warn = checkpb.Action_ACTION_WARN
	stop = checkpb.Action_ACTION_REJECT
	row  = 6 // rounds that are stopped
)

// request is a request of a conversation.
type request struct {
	prompt   int // 0 for that which the test is about
	begin    uint64
	messages uint32 // 0 for those of a first request
	session  string
	sample   bool
	peek     bool
	shared   bool
	hit      string
	// history and before are Opening's.
	history, before uint64
}

// caller sends the requests of one caller.
type caller struct {
	memory *Memory
	now    time.Time
	window uint32
	each   bool
}

func newCaller() *caller {
	return &caller{memory: New(), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), window: 60}
}

// check returns the check of a request.
func (c *caller) check(r request) *checkpb.Check {
	print := binary.BigEndian.AppendUint64(nil, uint64(r.prompt)+100)
	print = append(append(print, make([]byte, 8)...), fmt.Sprintf("%-16.16s", r.session)...)
	counter := &checkpb.Counter{
		Policy: "p", Fingerprint: print, WindowSeconds: c.window, CooldownSeconds: 30, Sample: r.sample,
		Steps: []*checkpb.Step{{At: row, Action: stop}},
		Opening: &checkpb.Opening{
			Begin: r.begin + 1, Messages: max(r.messages, 2), First: r.messages == 0, Named: r.session != "",
			History: r.history, Before: r.before,
		},
	}
	if r.session != "" {
		counter.Together = &checkpb.Together{Threshold: 10}
	}
	if c.each {
		counter.Opening = &checkpb.Opening{Named: r.session != ""}
	}
	return &checkpb.Check{Counters: []*checkpb.Counter{counter}, Identity: &checkpb.Identity{Caller: "k", Session: r.session}, Peek: r.peek, Shared: r.shared, Hit: r.hit}
}

// send returns the counter of a request as it is moderated, without what it does not add to.
func (c *caller) send(t *testing.T, r request) *checkpb.Counter {
	t.Helper()
	check := c.check(r)
	before := proto.CloneOf(check)
	out, judgement := c.memory.Moderate(check, check.GetCounters()[0], c.now)
	if !proto.Equal(before, check) {
		t.Fatal("the check was changed")
	}
	if out = proto.CloneOf(out); judgement.Apart {
		out.Together = nil
	}
	return out
}

// others sends first requests of other prompts.
func (c *caller) others(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		c.send(t, request{prompt: 1 + i, begin: uint64(1 + i)})
	}
}

func action(c *checkpb.Counter) checkpb.Action { return c.GetSteps()[0].GetAction() }

func TestAPromptAmongOthersIsAWorkload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		others  int // before six equal ones, of which all but the first are samples
		after   time.Duration
		window  uint32
		request request
		each    bool
		want    checkpb.Action
	}{
		"alone":                    {want: stop},
		"half":                     {others: 6, want: stop},
		"less than half":           {others: 7, want: warn},
		"less than half, long ago": {others: 7, after: time.Hour, want: stop},
		"a long window":            {others: 7, after: time.Hour, window: 7200, want: warn},
		"a session of its own":     {others: 50, request: request{session: "s"}, want: stop},
		"a prompt with history":    {others: 50, request: request{messages: 4}, want: stop},
		"more than are remembered": {others: 3 * maxTurns, want: warn},
		"half, known by half":      {others: 4, request: request{shared: true}, want: warn},
		"most, known by half":      {others: 3, request: request{shared: true}, want: stop},
		"each counts":              {others: 50, each: true, want: stop},
	} {
		k := newCaller()
		k.window, k.each = max(c.window, 60), c.each
		k.others(t, c.others)
		k.now = k.now.Add(c.after)
		var got *checkpb.Counter
		for i := range row {
			r := c.request
			r.sample = i > 0
			got = k.send(t, r)
		}
		if action(got) != c.want || (got.GetCooldownSeconds() == 0) != (c.want == warn) {
			t.Errorf("%s: %s with a cooldown of %d s, want %s", name, action(got), got.GetCooldownSeconds(), c.want)
		}
	}
}

// Visitors who say the same at first are a workload if their conversations go on. It does
// not matter that each request may come to another gateway.
func TestConversationsThatGoOnAreAWorkload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		goesOn   func(i int) bool
		next     request
		messages uint32
		want     checkpb.Action
	}{
		"all":                          {goesOn: func(int) bool { return true }, want: warn},
		"most":                         {goesOn: func(i int) bool { return i%4 > 0 }, want: warn},
		"few":                          {goesOn: func(i int) bool { return i%6 == 0 }, want: stop},
		"none":                         {goesOn: func(int) bool { return false }, want: stop},
		"all, by an answer in parts":   {goesOn: func(int) bool { return true }, next: request{messages: 6}, want: warn},
		"none, as a peek":              {goesOn: func(int) bool { return true }, next: request{peek: true}, want: stop},
		"others do":                    {goesOn: func(int) bool { return true }, next: request{begin: 1}, want: stop},
		"what is no next request":      {goesOn: func(int) bool { return true }, next: request{messages: 30}, want: stop},
		"all, later in a conversation": {goesOn: func(int) bool { return true }, messages: 8, next: request{messages: 10}, want: warn},
		"none, later":                  {goesOn: func(int) bool { return false }, messages: 8, want: stop},
		"the same prompt again":        {goesOn: func(int) bool { return true }, messages: 8, next: request{messages: 10, prompt: -1}, want: stop},
	} {
		k := newCaller()
		next := c.next
		next.messages, next.prompt = max(next.messages, 4), next.prompt+1
		for i := range 12 {
			k.send(t, request{messages: c.messages})
			if c.goesOn(i) {
				k.send(t, next)
				k.send(t, next) // it may be that of another one
			}
			k.now = k.now.Add(4 * time.Second)
		}
		if got := action(k.send(t, request{messages: c.messages})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Conversations that end alike are a workload; one that says the same again and again, or is
// sent again and again, is none, whatever others say.
func TestConversationsThatEndAlikeAreAWorkload(t *testing.T) {
	t.Parallel()
	grows := func(i int) request {
		return request{messages: uint32(4 + 2*i), history: uint64(100 + i), before: uint64(99 + i)}
	}
	apart := func(i int) request {
		return request{messages: uint32(4 + i%2), history: uint64(1000 + i), before: uint64(2000 + i)}
	}
	for name, c := range map[string]struct {
		sends []func(i int) request // in turn
		want  checkpb.Action
	}{
		"apart":                        {[]func(int) request{apart}, warn},
		"one that grows":               {[]func(int) request{grows}, stop},
		"one that grows, among others": {[]func(int) request{apart, grows}, stop},
		"one that is sent again":       {[]func(int) request{func(int) request { return request{messages: 4, history: 7, before: 6} }}, stop},
		"histories that are not shown": {[]func(int) request{func(int) request { return request{messages: 4} }}, stop},
		"by turns": {[]func(int) request{func(i int) request {
			r := grows(i)
			r.prompt = i % 2
			return r
		}}, stop},
	} {
		k := newCaller()
		var got *checkpb.Counter
		for i := range 2*row + 1 {
			for _, next := range c.sends {
				got = k.send(t, next(i))
			}
			k.now = k.now.Add(2 * time.Second)
		}
		if action(got) != c.want {
			t.Errorf("%s: %s, want %s", name, action(got), c.want)
		}
	}
	k := newCaller() // that has just begun, and did not see the others
	for i := range row - 1 {
		if got := action(k.send(t, apart(i))); got != stop {
			t.Errorf("request %d is known to be apart", i)
		}
	}
}

// What comes in a row, each after an answer, is a loop, whatever the caller sent before.
func TestARowOfRoundsIsNoWorkload(t *testing.T) {
	t.Parallel()
	for between, want := range []checkpb.Action{stop, warn} {
		k := newCaller()
		k.others(t, 50)
		var got *checkpb.Counter
		for i := range row {
			if i == 3 {
				k.others(t, between)
			}
			got = k.send(t, request{})
		}
		if action(got) != want {
			t.Errorf("with %d others in between: %s, want %s", between, action(got), want)
		}
	}
}

// A check that a gateway sends to a detector again is one request.
func TestACheckThatIsSentTwiceIsOneRequest(t *testing.T) {
	t.Parallel()
	k := newCaller()
	k.others(t, 12)
	for range 9 {
		k.send(t, request{hit: "one"})
	}
	if got := k.send(t, request{hit: "two"}); action(got) != warn {
		t.Errorf("two of 14 requests: %s", action(got))
	}
}

func TestPeeksLeaveNothing(t *testing.T) {
	t.Parallel()
	k := newCaller()
	for i := range 20 {
		k.send(t, request{prompt: i, session: fmt.Sprint(i), peek: true})
	}
	if n := len(k.memory.turns) + len(k.memory.newest) + len(k.memory.senders); n > 0 {
		t.Errorf("%d peeks are remembered", n)
	}
}

// Sessions that name themselves and go on are agents of their own: their prompts are not
// added up. Those of an agent that names a new session with each request are.
func TestSessionsThatGoOnAreNotAddedUp(t *testing.T) {
	t.Parallel()
	type step struct {
		session  string
		prompt   int
		after    time.Duration
		together bool
	}
	for name, steps := range map[string][]step{
		"a new session each time":       {{session: "a", together: true}, {session: "b", together: true}, {session: "c", together: true}},
		"a session that stays":          {{session: "a", together: true}, {session: "a", together: true}},
		"a session that went on before": {{session: "a", together: true}, {session: "a", prompt: 1}, {session: "b"}},
		"one that went on long ago":     {{session: "a", together: true}, {session: "a", prompt: 1}, {session: "b", after: time.Hour, together: true}},
		"a session that comes back":     {{session: "a", together: true}, {session: "a", prompt: 1}, {session: "a", prompt: 1, together: true}, {session: "a"}},
	} {
		k := newCaller()
		for i, s := range steps {
			k.now = k.now.Add(s.after)
			got := k.send(t, request{session: s.session, prompt: s.prompt, messages: 4})
			if together := got.GetTogether() != nil; together != s.together || action(got) != stop {
				t.Errorf("%s: request %d is added up: %t, want %t", name, i+1, together, s.together)
			}
		}
	}
}

// What no gateway sends, and what an earlier one sends, stays as it is.
func TestOtherCountersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*checkpb.Counter){
		"no opening":          func(c *checkpb.Counter) { c.Opening = nil },
		"a short fingerprint": func(c *checkpb.Counter) { c.Fingerprint = c.GetFingerprint()[:20] },
		"no steps":            func(c *checkpb.Counter) { c.Steps = nil },
	} {
		k := newCaller()
		k.others(t, 20)
		check := k.check(request{})
		c := check.GetCounters()[0]
		change(c)
		if got, _ := k.memory.Moderate(check, c, k.now); got != c {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m, at := New(), time.Now()
	for i := range maxCallers + 5 {
		m.add(turnsKey{caller: fmt.Sprint(i)}, &turn{at: at}, time.Minute, true)
	}
	for i := range maxSessions + 5 {
		m.send(fmt.Sprint("session ", i), fmt.Sprint("prompt ", i), at)
	}
	for i := range maxSenders + 5 {
		m.send(fmt.Sprint("session ", i), "prompt", at)
	}
	if len(m.turns) != maxCallers || len(m.newest) != maxSessions || len(m.senders) != maxPrompts || len(m.senders["prompt"]) != maxSenders {
		t.Errorf("%d callers, %d sessions, %d prompts, %d senders", len(m.turns), len(m.newest), len(m.senders), len(m.senders["prompt"]))
	}
	m.send(fmt.Sprint("session ", maxSenders), "prompt", at.Add(time.Hour))
	if len(m.senders["prompt"]) != maxSenders {
		t.Error("a session that is known is known twice")
	}
}

func TestMostConversationsMustHaveGoneOn(t *testing.T) {
	t.Parallel()
	now := time.Now()
	before := now.Add(-patience)
	open, ended := turn{prompt: 1, at: now}, turn{prompt: 1, at: before}
	sample, on := turn{prompt: 1, sample: true, at: before}, turn{prompt: 1, wentOn: true, at: before}
	longer := turn{prompt: 1, length: 2, wentOn: true}
	for name, c := range map[string]struct {
		list []turn
		want bool
	}{
		"one that began":            {[]turn{open}, false},
		"many that began":           {slices.Repeat([]turn{open}, row), false},
		"many, and one went on":     {append([]turn{on}, slices.Repeat([]turn{open}, row)...), true},
		"too many, and one went on": {append([]turn{on}, slices.Repeat([]turn{open}, 2*row+2)...), false},
		"samples alone":             {[]turn{sample, sample, sample}, false},
		"most went on":              {[]turn{on, on, ended, open}, true},
		"most did not":              {[]turn{on, ended, ended, open}, false},
		"a row that did not":        {slices.Concat(slices.Repeat([]turn{on}, 2*row), slices.Repeat([]turn{ended}, row), []turn{open}), false},
		"samples that went on, too": {[]turn{on, sample, sample, open}, true},
		"one that grows":            {[]turn{longer, longer, open}, false},
	} {
		if got := goOn(c.list, row); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A request goes on from the longest that it may go on from, and the newest of these: agents
// that work on one task side by side are at different steps of it.
func TestARequestGoesOnFromTheLongest(t *testing.T) {
	t.Parallel()
	list := []turn{{prompt: 1, length: 2}, {prompt: 2, length: 4}, {prompt: 2, length: 4}, {prompt: 1, length: 2}, {prompt: 3, length: 6}}
	next := &turn{prompt: 3, length: 6}
	for _, want := range []int{2, 1, 3, 0} {
		before := slices.Clone(list)
		if follow(list, next); !list[want].wentOn || before[want].wentOn {
			t.Errorf("it went on from another than %d of %v: %v", want, before, list)
		}
	}
	before := slices.Clone(list)
	if follow(list, next); !slices.Equal(list, before) {
		t.Errorf("it went on from more than there are: %v", list)
	}
}
