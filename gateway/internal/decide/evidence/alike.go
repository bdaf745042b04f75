package evidence

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/unloop/unloop/schemas/bounded"
	"github.com/unloop/unloop/schemas/details"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// maxSums is the maximum number of exchanges whose details are remembered.
const maxSums = 16384

// sums caches the details of exchanges: each request of a session repeats the earlier
// exchanges.
type sums struct {
	seed maphash.Seed
	mu   sync.Mutex
	all  map[sumKey]details.Sum
}

// sumKey identifies an exchange by its digest and its caller, so that no caller can change
// the cached details of another's exchange.
type sumKey struct{ caller, digest uint64 }

func newSums() *sums { return &sums{seed: maphash.MakeSeed(), all: map[sumKey]details.Sum{}} }

// of returns the details of a caller's exchange. It calls read if they are not cached.
func (s *sums) of(caller string, digest uint64, read func() (said, answered string)) details.Sum {
	key := sumKey{maphash.String(s.seed, caller), digest}
	s.mu.Lock()
	sum, known := s.all[key]
	s.mu.Unlock()
	if known {
		return sum
	}
	sum = details.Of(read())
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded.MakeRoom(s.all, key, maxSums)
	s.all[key] = sum
	return sum
}

// addAlike adds the details of the newest exchange, and the earlier exchanges with the same
// details: others can't be similar to it.
func (m *maker) addAlike(newest *semanticpb.Exchange) {
	caller, trace := m.Identity.GetCaller(), newest.GetTrace()
	sum := m.Memory.sums.of(caller, trace.GetDigest(), func() (said, answered string) { return newest.GetSaid(), newest.GetAnswered() })
	trace.Details = new(uint64(sum))
	for i, digest := range slices.Concat(trace.GetEarlier(), trace.GetFurther())[:m.Prompt.Transcript.Earlier()] {
		read := func() (said, answered string) { return valid(m.Prompt.Transcript.EarlierExchange(i, exchangeBytes)) }
		if digest == trace.GetDigest() || m.Memory.sums.of(caller, digest, read) != sum {
			continue
		}
		if slices.ContainsFunc(newest.GetAlike(), func(e *semanticpb.EarlierExchange) bool { return e.GetDigest() == digest }) {
			continue
		}
		switch said, answered := read(); {
		case said == "": // a first prompt alone is never compared with an exchange
		case m.otherItem(newest, said, answered):
			if !slices.Contains(trace.GetOthers(), digest) {
				trace.Others = append(trace.Others, digest)
			}
		default:
			newest.Alike = append(newest.Alike, &semanticpb.EarlierExchange{Said: said, Answered: answered, Digest: digest})
		}
	}
}

// otherItem reports whether an earlier exchange is about another item than the newest one: a
// human asked for another item in the same words, or a call that does something was for
// another item. Searches for different words with the same results don't count: they are one
// search in other words.
func (m *maker) otherItem(newest *semanticpb.Exchange, said, answered string) bool {
	if human, _ := m.Prompt.Transcript.Human(); len(human) > 0 {
		return details.OtherItem(newest.GetAnswered(), answered)
	}
	return m.does && details.OtherItem(newest.GetSaid(), said)
}

// valid returns the halves of an exchange in valid UTF-8.
func valid(said, answered string) (string, string) {
	if utf8.ValidString(said) && utf8.ValidString(answered) { // far faster than strings.ToValidUTF8
		return said, answered
	}
	const unknown = string(utf8.RuneError)
	return strings.ToValidUTF8(said, unknown), strings.ToValidUTF8(answered, unknown)
}
