package sizing

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s is %g, want %g within %.0f %%", what, got, want, 100*within)
	}
}

func predict(t *testing.T, s System, inFlight int) Prediction {
	t.Helper()
	p, err := s.Predict(inFlight)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestOneRequestTakesWhatItsPartsTake(t *testing.T) {
	t.Parallel()
	s := System{Waiting: 1e-3, Parts: []Part{{Name: "a", Each: 2e-3, Servers: 4}, {Name: "b", Each: 1e-3, Message: 1e-3, Servers: 1}}}
	p := predict(t, s, 1)
	near(t, "latency", p.Latency, 5e-3, 1e-9)
	near(t, "rate", p.PerSecond, 200, 1e-9)
}

func TestManyRequestsAreLimitedByTheBusiestPart(t *testing.T) {
	t.Parallel()
	s := System{Parts: []Part{{Name: "gateway", Each: 1e-3, Servers: 4}, {Name: "leader", Each: 1e-3, Servers: 1}}}
	p := predict(t, s, 500)
	near(t, "rate", p.PerSecond, 1000, 0.01)
	if p.Busiest != "leader" {
		t.Errorf("%q is the busiest, want the leader", p.Busiest)
	}
	near(t, "its use", p.Use, 1, 0.01)
}

func TestPartsOfOneMachineShareItsProcessors(t *testing.T) {
	t.Parallel()
	s := System{Processors: 2, Parts: []Part{{Name: "a", Each: 3e-3}, {Name: "limited", Each: 1e-3, Servers: 0.25}}}
	near(t, "rate with a part limited", predict(t, s, 100).PerSecond, 250, 0.01)
	s.Parts[1].Servers = 8 // more than the machine has
	p := predict(t, s, 100)
	near(t, "rate with the machine full", p.PerSecond, 500, 0.01)
	if p.Busiest != processors {
		t.Errorf("%q is the busiest, want the processors", p.Busiest)
	}
}

func TestWhatIsWithinAnotherPartBoundsTheRateAlone(t *testing.T) {
	t.Parallel()
	s := System{Parts: []Part{{Name: "server", Each: 1e-3, Servers: 4}, {Name: "stream", Each: 0.5e-3, Servers: 1, Within: true}}}
	near(t, "latency of one", predict(t, s, 1).Latency, 1e-3, 1e-9)
	p := predict(t, s, 100)
	near(t, "rate of many", p.PerSecond, 2000, 1e-6)
	near(t, "latency of many", p.Latency, 0.05, 1e-6)
	if p.Busiest != "stream" {
		t.Errorf("%q is the busiest, want the stream", p.Busiest)
	}
}

func TestMessagesAreShared(t *testing.T) {
	t.Parallel()
	s := System{Messages: 4, Largest: 8, Parts: []Part{{Name: "a", Each: 1e-3, Message: 8e-3, Servers: 1}}}
	near(t, "one in flight", predict(t, s, 1).PerSecond, 1/9e-3, 0.01)
	near(t, "two in a message", predict(t, s, 5).PerSecond, 1/5e-3, 0.01)
	near(t, "full messages", predict(t, s, 400).PerSecond, 1/2e-3, 0.01)
	s.Parts[0].Spread = 7
	near(t, "full messages of several processes", predict(t, s, 400).PerSecond, 1/5e-3, 0.01)
}

// TestAnalysisAgreesWithSimulation compares the model with a network of exponential
// servers, for which mean value analysis is exact where each has one server.
func TestAnalysisAgreesWithSimulation(t *testing.T) {
	t.Parallel()
	demands := []float64{1.0, 0.6, 0.3}
	const customers, jobs = 5, 200_000
	rng := rand.New(rand.NewPCG(1, 2))
	free := make([]float64, len(demands))
	type visit struct {
		at   float64
		next int
	}
	var all [customers]visit
	done, now := 0, 0.0
	for done < jobs {
		first := 0
		for i := range all {
			if all[i].at < all[first].at {
				first = i
			}
		}
		v := &all[first]
		now = v.at
		start := max(now, free[v.next])
		end := start + rng.ExpFloat64()*demands[v.next]
		free[v.next], v.at = end, end
		if v.next = (v.next + 1) % len(demands); v.next == 0 {
			done++
		}
	}
	var s System
	for i, d := range demands {
		s.Parts = append(s.Parts, Part{Name: string(rune('a' + i)), Each: d, Servers: 1})
	}
	near(t, "predicted rate", predict(t, s, customers).PerSecond, jobs/now, 0.01)
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		small, large  Measured
		each, message float64
	}{
		{"shared messages", Measured{1, 50}, Measured{16, 20}, 18, 32},
		{"nothing is shared", Measured{1, 20}, Measured{16, 22}, 22, 0},
		{"all is shared", Measured{1, 100}, Measured{10, 5}, 0, 50},
		{"one size of message", Measured{1, 30}, Measured{1, 20}, 20, 0},
	} {
		each, message := Fit(c.small, c.large)
		if math.Abs(each-c.each) > 1e-9 || math.Abs(message-c.message) > 1e-9 {
			t.Errorf("%s: %g and %g, want %g and %g", c.name, each, message, c.each, c.message)
		}
	}
}

func TestWhatIsNoSystemIsAnError(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]System{
		"no processors": {Parts: []Part{{Name: "a", Each: 1}}},
		"negative time": {Parts: []Part{{Name: "a", Each: -1, Servers: 1}}},
		"no time":       {Parts: []Part{{Name: "a", Servers: 1}}},
		"no parts":      {},
		"waiting":       {Waiting: -1, Parts: []Part{{Name: "a", Each: 1, Servers: 1}}},
	} {
		if _, err := s.Predict(1); !errors.Is(err, ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := System{Parts: []Part{{Name: "a", Each: 1, Servers: 1}}}
	if _, err := s.Predict(0); !errors.Is(err, ErrInput) {
		t.Errorf("nothing in flight: %v", err)
	}
}
