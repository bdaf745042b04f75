package vectors

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/embedworker/internal/quantised"
	"github.com/unloop/unloop/schemas/details"
	"github.com/unloop/unloop/schemas/semanticpb"
)

// history is a scope's record, newest entry first. It is a ledger.Parted: each write
// stores the entries that are in no part yet. What cannot be read is forgotten and
// replaced. A history is a value; its entries are shared and do not change.
type history struct {
	entries []*entry
	// in are the parts that the entries are in.
	in []part
	// slot of the newest part.
	slot uint32
	// older are the parts that are named and not read yet.
	older []part
	// streakUntil is until when the scope may have a streak, in Unix milliseconds; 0 for no
	// streak.
	streakUntil int64
}

const (
	// streakSlack is how much longer than a streak it is noted that there may be one, and
	// streakMargin the least that is left of that when the streak is written.
	streakSlack, streakMargin = time.Minute, 10 * time.Second
)

// part is where an entry is stored; the zero part is that of an entry which is not.
type part struct {
	slot uint32
	seq  uint64
}

// entry is one remembered text.
type entry struct {
	pb     *semanticpb.VectorEntry // with quantised vectors
	halves []quantised.Vector
	size   int // in bytes, as it is stored
}

// newEntry returns the entry of a stored one.
func newEntry(pb *semanticpb.VectorEntry) *entry {
	e := &entry{pb: pb}
	for _, h := range pb.GetQuantised() {
		e.halves = append(e.halves, h)
	}
	e.size = proto.Size(pb)
	return e
}

// Append implements ledger.Record: it writes the part that is new.
func (h *history) Append(b []byte) []byte {
	out := &semanticpb.VectorHistory{Slot: h.slot, StreakUntilMs: h.streakUntil}
	for i, e := range h.entries {
		if h.in[i].seq == 0 {
			out.Entries = append(out.Entries, e.pb)
		}
	}
	for _, p := range h.stored() {
		out.Older = append(out.Older, &semanticpb.VectorPart{Slot: p.slot, Sequence: p.seq})
	}
	body, err := proto.MarshalOptions{}.MarshalAppend(b, out)
	if err != nil { // a text that is no UTF-8 would be one; requests are checked
		return b
	}
	return body
}

// stored returns the stored parts that entries are in, each once.
func (h *history) stored() (parts []part) {
	for _, p := range h.in {
		if p.seq > 0 && !slices.Contains(parts, p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// Parse implements ledger.Record: it reads the newest part.
func (h *history) Parse(stored []byte) error {
	var pb semanticpb.VectorHistory
	if err := proto.Unmarshal(stored, &pb); err != nil {
		return err
	}
	*h = history{slot: pb.GetSlot(), streakUntil: pb.GetStreakUntilMs()}
	h.add(part{}, &pb)
	for _, p := range pb.GetOlder()[:min(len(pb.GetOlder()), MaxKeep)] {
		h.older = append(h.older, part{p.GetSlot(), p.GetSequence()})
	}
	return nil
}

// add takes the entries of a part.
func (h *history) add(p part, pb *semanticpb.VectorHistory) {
	for _, e := range pb.GetEntries() {
		h.entries, h.in = append(h.entries, newEntry(e)), append(h.in, p)
	}
}

// Slot implements ledger.Parted.
func (h *history) Slot() string { return strconv.FormatUint(uint64(h.slot), 10) }

// Stored implements ledger.Parted.
func (h *history) Stored(seq uint64) {
	for i := range h.in {
		if h.in[i].seq == 0 {
			h.in[i] = part{h.slot, seq}
		}
	}
}

// Missing implements ledger.Parted.
func (h *history) Missing(seen history) (missing []uint64) {
	for _, p := range h.older {
		known := false
		for i, in := range seen.in {
			if in == p {
				h.entries, h.in, known = append(h.entries, seen.entries[i]), append(h.in, in), true
			}
		}
		if !known {
			missing = append(missing, p.seq)
		}
	}
	h.sort()
	return missing
}

// Add implements ledger.Parted.
func (h *history) Add(seq uint64, stored []byte) {
	var pb semanticpb.VectorHistory
	at := slices.IndexFunc(h.older, func(p part) bool { return p.seq == seq })
	if at < 0 || proto.Unmarshal(stored, &pb) != nil {
		return
	}
	h.add(h.older[at], &pb)
	h.sort()
}

// sort puts the newest entries first.
func (h *history) sort() {
	order := make([]int, len(h.entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(h.entries[b].pb.GetStoredMs(), h.entries[a].pb.GetStoredMs()), cmp.Compare(h.in[b].seq, h.in[a].seq))
	})
	entries, in := make([]*entry, len(order)), make([]part, len(order))
	for to, from := range order {
		entries[to], in[to] = h.entries[from], h.in[from]
	}
	h.entries, h.in = entries, in
}

// Whole implements ledger.Parted.
func (h *history) Whole() history {
	return history{entries: h.entries, in: make([]part, len(h.entries)), streakUntil: h.streakUntil}
}

// Size implements ledger.Parted.
func (h *history) Size() (n int) {
	for _, e := range h.entries {
		n += e.size
	}
	return n
}

// keepFor is until the last entry has aged out, in whole seconds and at least
// JetStream's least; when each does is in the entries.
func (h *history) keepFor(now time.Time) time.Duration {
	last := h.streakUntil
	for _, e := range h.entries {
		last = max(last, e.pb.GetExpiresMs())
	}
	return max(0, time.UnixMilli(last).Sub(now).Round(time.Second)) + time.Second
}

// streak returns the note about the scope's streak.
func (h *history) streak(now time.Time) Streak {
	if h.streakUntil > now.UnixMilli() {
		return StreakPossible
	}
	return StreakNone
}

// noted returns what is noted of the scope's streak with the next text.
func (h *history) noted(now time.Time) int64 {
	if h.streak(now) == StreakNone {
		return 0
	}
	return h.streakUntil
}

// expecting returns the history with a note that a streak is about to be written and then
// kept for so long. A ttl of 0 says that it has one.
func (h *history) expecting(now time.Time, kept time.Duration) (next history, ttl time.Duration) {
	if h.streakUntil >= now.Add(kept+streakMargin).UnixMilli() {
		return *h, 0
	}
	next, _ = h.remembered(Request{}, now)
	next.streakUntil = now.Add(kept + streakSlack).UnixMilli()
	next.slot = next.free()
	return next, next.keepFor(now)
}

// compared compares the request with the entries that were kept of the history.
func (h *history) compared(r Request, kept history, replaced bool, now time.Time) History {
	entries := kept.entries[:min(len(kept.entries), r.Keep)]
	past := make([]Found, 0, len(entries))
	for _, e := range entries {
		p := compare.Past{SameDetails: details.Sum(e.pb.GetMarks()) == r.Subject.Details}
		if p.SameDetails || !r.SameDetails {
			p.Similarity = r.similarityTo(e)
		}
		past = append(past, Found{
			Unembedded: !e.embedded(),
			Past:       r.Subject.Compared(p, compare.SentencesOf(e.pb.GetSentences()), e.pb.GetDigest()),
			ID:         e.pb.GetRequestId(), Text: e.pb.GetText(), Age: now.Sub(time.UnixMilli(e.pb.GetStoredMs())),
		})
	}
	return History{past, replaced, h.streak(now)}
}

// embedded reports whether an entry has a vector.
func (e *entry) embedded() bool {
	return slices.ContainsFunc(e.halves, func(h quantised.Vector) bool { return len(h) > 0 })
}

// similarityTo returns the similarity to an entry. Vectors that the request brings for it
// are as exact as they would be if they were stored.
func (r Request) similarityTo(e *entry) float64 {
	if e.embedded() {
		return compare.Similarity(r.Subject, e.halves)
	}
	var halves []quantised.Vector
	for _, h := range r.Earlier[e.pb.GetDigest()] {
		halves = append(halves, quantised.New(h))
	}
	return compare.Similarity(r.Subject, halves)
}

// remembered returns the entries that have not aged out and do not belong to the
// request. What shares a part with one that belongs to the request is to be stored again.
func (h *history) remembered(r Request, now time.Time) (kept history, replaced bool) {
	kept = history{entries: make([]*entry, 0, len(h.entries)), in: make([]part, 0, len(h.entries))}
	var removed []part
	for i, e := range h.entries {
		switch {
		case e.pb.GetExpiresMs() <= now.UnixMilli():
		case r.ID != "" && e.pb.GetRequestId() == r.ID:
			removed = append(removed, h.in[i])
		case !replaced && r.replaces(e.pb.GetRequestId()):
			replaced, removed = true, append(removed, h.in[i])
		default:
			kept.entries, kept.in = append(kept.entries, e), append(kept.in, h.in[i])
		}
	}
	for i := range kept.in {
		if slices.Contains(removed, kept.in[i]) {
			kept.in[i] = part{}
		}
	}
	return kept, replaced
}

// before returns the history with the request in front of the kept entries. The new part
// has at most room bytes, unless the newest entry alone has more.
func (h *history) before(r Request, kept history, now time.Time, room int) history {
	pb := &semanticpb.VectorEntry{
		RequestId: r.ID, StoredMs: now.UnixMilli(), ExpiresMs: now.Add(r.TTL).UnixMilli(),
		Marks: uint64(r.Subject.Details), Text: r.Text, Sentences: r.Subject.Sentences.Bytes(), Digest: r.Subject.Digest,
	}
	for _, half := range r.Subject.Halves {
		pb.Quantised = append(pb.Quantised, quantised.New(half))
	}
	n := min(len(kept.entries), r.Keep-1)
	next := history{
		entries: append(append(make([]*entry, 0, n+1), newEntry(pb)), kept.entries[:n]...),
		in:      append(append(make([]part, 0, n+1), part{}), kept.in[:n]...), streakUntil: h.noted(now),
	}
	next.fit(room)
	next.slot = next.free()
	return next
}

// inPart is more than a part needs beside its entries, in bytes: names of other parts.
const inPart = 32 * MaxKeep

// fit drops the oldest entries that are stored nowhere until the others have room in one
// part.
func (h *history) fit(room int) {
	size := inPart
	for i := 0; i < len(h.entries); i++ {
		if h.in[i].seq > 0 {
			continue
		}
		if size += h.entries[i].size + 8; size > room && i > 0 {
			h.entries, h.in = slices.Delete(h.entries, i, i+1), slices.Delete(h.in, i, i+1)
			i--
		}
	}
}

// free returns the lowest slot that has none of the stored parts.
func (h *history) free() uint32 {
	for slot := range uint32(math.MaxUint32) {
		if !slices.ContainsFunc(h.in, func(p part) bool { return p.seq > 0 && p.slot == slot }) {
			return slot
		}
	}
	return 0
}
