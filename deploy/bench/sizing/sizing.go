// Package sizing is a model of how many requests a second a set of processes serves, and
// of what keeps it from serving more. It takes processor times that were measured.
//
// It is a closed queueing network: so many requests are in flight, and each one's end is
// the next one's beginning. Processes that share processors are one station, a part that
// has processors of its own is another, and what only one thread can do at a time, such as
// the writes to a stream, is a station with one server. Mean value analysis gives rate and
// latency (Reiser and Lavenberg, 1980); a station with several servers is a faster single
// server and a delay (Seidmann, Schweitzer and Shalev-Oren, 1987).
//
// It knows no process, no network and no clock.
package sizing

import (
	"errors"
	"fmt"
	"math"
)

// Part is a kind of process, or what one thread does at a time.
type Part struct {
	Name string
	// Each is the time that each request takes of it, in seconds, and Message the time of
	// a message, which the requests in it share.
	Each, Message float64
	// Spread is over how many processes the messages are spread: each works on fewer of
	// their requests at a time, so that less of a message's time is shared. 0 is 1.
	Spread float64
	// Servers is how many processors work on it; a share of one is less than 1. A part
	// with 0 shares the machine's processors with the others.
	Servers float64
	// Within says that the time is within that of another part, such as the writes to a
	// stream within that of its server: it bounds the rate and adds no time.
	Within bool
}

// demand is the time in seconds that a request takes, with batch requests in a message.
func (p Part) demand(batch float64) float64 { return p.Each + p.Message/(1+(batch-1)/max(p.Spread, 1)) }

// System is what requests pass.
type System struct {
	Parts []Part
	// Processors are those of the machine on which all parts run. It is 0 where each part
	// has its own.
	Processors float64
	// Waiting is the time in seconds of a request in which nothing works on it.
	Waiting float64
	// Messages is the number of messages that are on their way at once; what else is in
	// flight shares them. Beyond Largest requests in a message no more is saved.
	Messages, Largest float64
}

// Prediction is what a system does.
type Prediction struct {
	// PerSecond is the rate of requests.
	PerSecond float64
	// Latency is that of a request in seconds.
	Latency float64
	// Busiest names what is used most, and Use is the share of it that is used.
	Busiest string
	Use     float64
}

// processors is the name of the station that parts share.
const processors = "processors"

// ErrInput says that a system is none.
var ErrInput = errors.New("not a system")

// Predict returns what the system does with so many requests in flight. It returns
// ErrInput where times are negative, or nothing takes any.
func (s *System) Predict(inFlight int) (Prediction, error) {
	if inFlight < 1 || s.Waiting < 0 || s.Processors < 0 {
		return Prediction{}, fmt.Errorf("%w: in flight %d, waiting %g, processors %g", ErrInput, inFlight, s.Waiting, s.Processors)
	}
	stations, err := s.stations(s.Batch(inFlight))
	if err != nil {
		return Prediction{}, err
	}
	rate, latency := analyse(stations, s.Waiting, inFlight)
	if most := s.ceiling(inFlight); rate > most {
		rate, latency = most, float64(inFlight)/most
	}
	p := Prediction{PerSecond: rate, Latency: latency}
	for _, use := range s.uses(rate, inFlight) {
		if use.share > p.Use {
			p.Busiest, p.Use = use.name, use.share
		}
	}
	return p, nil
}

// Batch is the number of requests that share a message.
func (s *System) Batch(inFlight int) float64 {
	if s.Messages <= 0 {
		return 1
	}
	return min(1+float64(inFlight-1)/s.Messages, max(s.Largest, 1))
}

// station has one server, at which a request takes queued seconds, and a delay.
type station struct{ queued, delay float64 }

func newStation(demand, servers float64) station {
	return station{queued: demand / servers, delay: demand * max(servers-1, 0) / servers}
}

func (s *System) stations(batch float64) ([]station, error) {
	var out []station
	shared, all := 0.0, 0.0
	for _, p := range s.Parts {
		demand := p.demand(batch)
		switch {
		case p.Each < 0 || p.Message < 0 || p.Servers < 0, p.Servers == 0 && s.Processors == 0:
			return nil, fmt.Errorf("%w: part %q takes %g s and %g s a message of %g processors", ErrInput, p.Name, p.Each, p.Message, p.Servers)
		case p.Within:
			continue
		case p.Servers > 0:
			out = append(out, newStation(demand, p.Servers))
		default:
			shared += demand
		}
		all += demand
	}
	if all == 0 {
		return nil, fmt.Errorf("%w: no part takes any time", ErrInput)
	}
	if shared > 0 {
		out = append(out, newStation(shared, s.Processors))
	}
	return out, nil
}

// ceiling is the rate at which a part, or the machine, has nothing left. It counts parts
// whose share of the machine is bounded to the machine's use too.
func (s *System) ceiling(inFlight int) float64 {
	most := math.Inf(1)
	for _, u := range s.uses(1, inFlight) {
		if u.share > 0 {
			most = min(most, 1/u.share)
		}
	}
	return most
}

type use struct {
	name  string
	share float64
}

// uses are the shares of each station that a rate uses.
func (s *System) uses(rate float64, inFlight int) []use {
	var out []use
	all := 0.0
	for _, p := range s.Parts {
		demand := p.demand(s.Batch(inFlight))
		if !p.Within {
			all += demand
		}
		if p.Servers > 0 {
			out = append(out, use{p.Name, rate * demand / p.Servers})
		}
	}
	if s.Processors > 0 {
		out = append(out, use{processors, rate * all / s.Processors})
	}
	return out
}

// analyse is the mean value analysis of a closed network.
func analyse(stations []station, waiting float64, inFlight int) (rate, latency float64) {
	queue := make([]float64, len(stations))
	for n := 1; n <= inFlight; n++ {
		latency = waiting
		times := make([]float64, len(stations))
		for i, s := range stations {
			times[i] = s.queued*(1+queue[i]) + s.delay
			latency += times[i]
		}
		rate = float64(n) / latency
		for i, s := range stations {
			queue[i] = rate * (times[i] - s.delay)
		}
	}
	return rate, latency
}

// Measured is the time in seconds that a request took of a part, with so many requests in
// a message.
type Measured struct{ Batch, Time float64 }

// Fit returns the time of each request and of each message that two measurements have in
// common. Where larger messages did not save anything, the message takes none.
func Fit(small, large Measured) (each, message float64) {
	share := 1/small.Batch - 1/large.Batch
	if share <= 0 || small.Time <= large.Time {
		return large.Time, 0
	}
	message = (small.Time - large.Time) / share
	each = large.Time - message/large.Batch
	if each < 0 {
		return 0, large.Time * large.Batch
	}
	return each, message
}
