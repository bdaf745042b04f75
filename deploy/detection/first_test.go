package detection

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/checkpb"
)

// busyScenes are honest ways to send many equal requests without history.
var busyScenes = []honest{
	{name: "a guardrail reads what users write", play: func(s *scene) {
		r := rand.New(rand.NewPCG(1, 2))
		usual := []string{"yes", "ok", "thanks", "continue", "no", "hello"}
		for i := range 600 {
			text := fmt.Sprintf("Where is parcel %d, and who signed for it?", r.IntN(10_000))
			if r.IntN(5) < 2 {
				text = usual[r.IntN(len(usual))]
			}
			a := s.agent(time.Duration(i) * 900 * time.Millisecond).system("Say safe or unsafe.").user(text)
			a.think = 300 * time.Millisecond
			a.ask()
		}
	}},
	{name: "simulated users, eight trials of each task", play: func(s *scene) {
		for i := range 240 {
			s.agent(time.Duration(i/8) * 4 * time.Second).system(fmt.Sprintf("You are user %d.", i/8)).user("Hi! How can I help you today?").ask()
		}
	}},
	{name: "replicas that warm a cache", play: func(s *scene) {
		for i := range 8 {
			s.agent(time.Duration(i) * 200 * time.Millisecond).system("The handbook.").user("Say ok.").ask()
		}
	}},
	{name: "duplicates in a batch, ten at a time", play: func(s *scene) {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			row := fmt.Sprintf("Classify: receipt %d", i)
			if r.IntN(10) == 0 {
				row = "Classify: (no description)"
			}
			a := s.agent(time.Duration(i) * 250 * time.Millisecond).user(row)
			a.think = time.Duration(500+r.IntN(4000)) * time.Millisecond
			a.ask()
		}
	}},
	{name: "14 CI jobs, one after the other", play: func(s *scene) {
		for i := range 14 {
			s.agent(time.Duration(i) * 4 * time.Second).named(fmt.Sprint("job-", i)).system("You review code.").user("Review the newest commit.").ask()
		}
	}},
	{name: "a pool of samples", play: func(s *scene) {
		for i := range 40 {
			s.agent(time.Duration(i) * 300 * time.Millisecond).user("Name the capital of Peru.").ask()
		}
	}},
}

// oneByOne sends n equal requests, each after the answer to the one before.
func (s *scene) oneByOne(n int, session string) {
	a := s.agent(0).named(session).user("What is the weather in Lima?")
	for range n {
		a.ask().wait(time.Millisecond)
	}
}

// others sends other requests of the same key meanwhile.
func (s *scene) others(n int) {
	for i := range n {
		s.agent(time.Duration(i) * 500 * time.Millisecond).user(fmt.Sprint("Question ", i)).ask()
	}
}

// Equal first requests are stopped where they are repeated after an answer, and are no
// workload.
func TestEqualFirstRequestsAfterAnswersAreStopped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(*scene)
		want int // the first request that is stopped, from 1; 0 for none
	}{
		"six, one after the other": {func(s *scene) { s.oneByOne(6, "") }, 6},
		"bursts of a runaway": {func(s *scene) {
			for i := range 500 {
				s.agent(time.Duration(i/100) * 8 * time.Second).user("What is the weather in Lima?").ask()
			}
		}, 133}, // the sixth round of 32
		"a session among others": {func(s *scene) { s.oneByOne(6, "s"); s.others(50) }, 47},
		"a workload":             {func(s *scene) { s.oneByOne(6, ""); s.others(50) }, 0},
	} {
		s := &scene{}
		c.play(s)
		p := s.play(t, wires()[0])
		if first := p.first(checkpb.Action_ACTION_REJECT) + 1; first != c.want {
			t.Errorf("%s: stopped at %d, want %d\n%s", name, first, c.want, p)
		}
	}
}
