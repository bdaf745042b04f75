// Package partition spreads a bucket over several streams, whose leaders NATS spreads over
// its servers: one stream has one leader, whose server would limit the throughput of a
// cluster.
//
// # Places
//
// A partitioned bucket has Count streams. The first has the bucket's own name, further ones
// add a number: LOOP_COUNTERS, LOOP_COUNTERS_1, LOOP_COUNTERS_2. The place of a record
// depends only on a hash of its key. The keys of counters and sessions are hashes of callers,
// so callers spread over the places. The record of a rule that counts several callers
// together has one place.
//
// Count is a power of two. It is stored in the metadata of one stream, that of the counters,
// together with the state of its growth (Scheme). With one stream, names are as without
// partitions.
//
// # Growth
//
// When Count grows, some records have to move. Processes learn of it at different moments,
// and no record may be counted in two places. So a record moves in three writes, each a
// compare-and-set (Move):
//
//  1. The record at the former place is sealed: it is written again with a header that
//     says that it moves.
//  2. The record is created at the new place.
//  3. The seal is emptied.
//
// A process that still writes at the former place fails at the seal, asks for the scheme and
// goes to the new place. Only one creation succeeds. No step is applied at the new place
// before the seal is empty, so that nobody can recreate the record from an old copy; a
// process that finds a seal with a record in it finishes the move. If a process dies between
// two writes, another continues.
//
// A growth has two phases:
//
//   - Sealing: some processes may not know of the growth. A key without a record is sealed,
//     too, before it is created at its new place.
//   - Moving: all processes know. Nobody creates a record at a former place any more, so
//     such a key needs no seal. What nobody touches is moved by the command that grows.
//     The growth ends when the leaders of the former places list nothing that belongs
//     elsewhere.
//
// All processes know after the sealing, because nobody uses a scheme that was read longer
// than Lease ago, and sealing lasts longer than that. Seals outlive the sealing.
//
// Records in several parts (histories of texts) are not sealed, because seals would have to
// outlive each part. A process that finds none at the new place inherits the record from the
// former one, until a day after the growth. For a moment two processes may write a history,
// so that one text is lost.
//
// The package does not know what records mean.
package partition

import (
	"fmt"
	"hash/crc32"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unloop/unloop/schemas"
)

const (
	// Most is the largest number of streams of a bucket.
	Most = 32
	// Lease is how long a scheme may be relied on after it was asked for.
	Lease = 5 * time.Second
	// SealingTime is the length of the first phase of a growth: the lease of an old scheme,
	// and 15 s for a deposed leader that does not know it yet, writes in flight, and drift of
	// clocks.
	SealingTime = Lease + 15*time.Second
	// SealTime is the TTL of the seal of a key without a record.
	SealTime = SealingTime + 10*time.Second
	// inherited is how long after a growth records in parts are inherited from their former
	// places.
	inherited = 24 * time.Hour
)

// Buckets are the partitioned buckets: those with writes for each check.
var Buckets = []string{schemas.BucketCounters, schemas.BucketSessions, schemas.BucketLimits, schemas.BucketBudgets, schemas.BucketVectors}

// Truth is the bucket whose stream has the scheme in its metadata.
const Truth = schemas.BucketCounters

// Spread reports whether a bucket is partitioned.
func Spread(bucket string) bool { return slices.Contains(Buckets, bucket) }

// Phase is the phase of a growth.
type Phase string

// The phases of a growth; Settled for none.
const (
	Settled Phase = ""
	Sealing Phase = "sealing"
	Moving  Phase = "moving"
)

// Scheme determines the places of records.
type Scheme struct {
	// Count is the number of streams of each bucket; 0 means 1.
	Count int
	// Before is the value of Count before the last growth; 0 if there was none.
	Before int
	// Phase is the phase of that growth.
	Phase Phase
	// Grown is when it began.
	Grown time.Time
}

// State is the part of a scheme that is shown to people.
type State struct {
	// Count is the number of streams of each bucket.
	Count int `json:"count"`
	// Before and Phase describe a growth that has not ended.
	Before int   `json:"before,omitempty"`
	Phase  Phase `json:"phase,omitempty"`
}

// State returns the state of the scheme.
func (s Scheme) State() State {
	if s.Phase == Settled {
		return State{Count: max(s.Count, 1)}
	}
	return State{s.Count, s.Before, s.Phase}
}

// String returns the state in words.
func (s State) String() string {
	switch s.Phase {
	case Settled:
		return strconv.Itoa(s.Count)
	case Sealing:
		return fmt.Sprintf("growing from %d to %d: services learn of it (%s)", s.Before, s.Count, s.Phase)
	default:
		return fmt.Sprintf("growing from %d to %d: records move (%s)", s.Before, s.Count, s.Phase)
	}
}

// Valid returns an error for an invalid number of streams.
func Valid(count int) error {
	if count < 1 || count > Most || bits.OnesCount(uint(count)) != 1 {
		return fmt.Errorf("%d partitions: it must be 1, 2, 4, 8, 16 or %d", count, Most)
	}
	return nil
}

// Keys of the metadata of the stream that has the scheme.
const (
	keyCount  = "unloop.partitions"
	keyBefore = "unloop.partitions.before"
	keyPhase  = "unloop.partitions.phase"
	keyGrown  = "unloop.partitions.grown"
)

// Parse reads the scheme from a stream's metadata. An invalid one means one stream.
func Parse(metadata map[string]string) Scheme {
	count, _ := strconv.Atoi(metadata[keyCount]) // 0 is not valid
	if Valid(count) != nil {
		return Scheme{Count: 1}
	}
	s := Scheme{Count: count, Phase: Phase(metadata[keyPhase])}
	if before, _ := strconv.Atoi(metadata[keyBefore]); Valid(before) == nil && before < count {
		s.Before = before
	}
	s.Grown, _ = time.Parse(time.RFC3339, metadata[keyGrown]) // long ago, if it is not valid
	if s.Before == 0 {
		s.Phase = Settled
	}
	return s
}

// Metadata returns a stream's metadata with the scheme.
func (s Scheme) Metadata(of map[string]string) map[string]string {
	out := maps.Clone(of)
	if out == nil {
		out = map[string]string{}
	}
	out[keyCount] = strconv.Itoa(max(s.Count, 1))
	if s.Before > 0 {
		out[keyBefore], out[keyPhase], out[keyGrown] = strconv.Itoa(s.Before), string(s.Phase), s.Grown.UTC().Format(time.RFC3339)
	}
	return out
}

// After reports whether a scheme is newer than another one.
func (s Scheme) After(o Scheme) bool {
	if s.Count != o.Count {
		return s.Count > o.Count
	}
	return slices.Index(phases, s.Phase) > slices.Index(phases, o.Phase)
}

var phases = []Phase{Sealing, Moving, Settled}

// Place returns the partition of a key of a partitioned bucket.
func (s Scheme) Place(bucket, key string) string { return place(bucket, key, s.Count) }

// Former returns the partition that may still have the key's record; "" for none.
func (s Scheme) Former(bucket, key string) string {
	if s.Phase == Settled {
		return ""
	}
	return s.former(bucket, key)
}

// Inherits returns the partition that may still have the parts of a record; "" for none.
func (s Scheme) Inherits(bucket, key string, now time.Time) string {
	if s.Phase == Settled && now.Sub(s.Grown) > inherited {
		return ""
	}
	return s.former(bucket, key)
}

func (s Scheme) former(bucket, key string) string {
	if s.Before == 0 {
		return ""
	}
	if before := place(bucket, key, s.Before); before != s.Place(bucket, key) {
		return before
	}
	return ""
}

func place(bucket, key string, count int) string {
	if count <= 1 || isPinned(key) {
		return bucket
	}
	return partName(bucket, int(crc32.ChecksumIEEE([]byte(key))%uint32(count))) //nolint:gosec // at most Most
}

// isPinned reports whether a key is always in the first partition: records of answers, and
// probes.
func isPinned(key string) bool {
	kind, _, _ := strings.Cut(key, ".")
	return slices.Contains(pinned, kind)
}

var pinned = []string{"answer", "calls", "asker", "settled", "probe"}

// partName returns the name of a bucket's partition, from 0.
func partName(bucket string, part int) string {
	if part == 0 {
		return bucket
	}
	return bucket + "_" + strconv.Itoa(part)
}

// Names returns the names of a bucket's partitions; its own name if it is not partitioned.
func Names(bucket string, count int) []string {
	names := []string{bucket}
	if Spread(bucket) {
		for part := 1; part < count; part++ {
			names = append(names, partName(bucket, part))
		}
	}
	return names
}

// Base returns the bucket to which a partition belongs, or the name itself.
func Base(name string) string {
	for _, bucket := range Buckets {
		if rest, ok := strings.CutPrefix(name, bucket+"_"); ok {
			if part, err := strconv.Atoi(rest); err == nil && 0 < part && part < Most {
				return bucket
			}
		}
	}
	return name
}
