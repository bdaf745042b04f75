package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/partition"
)

const (
	slowRoundTrip = 5 * time.Millisecond
	// Clocks that differ by skewed are worth a warning; wrongClock is a fault.
	skewed     = time.Second
	wrongClock = time.Minute
	// nearlyFull is the share of a stream's limit that is worth a warning.
	nearlyFull = 0.9
)

func (e *examination) checkNATS(ctx context.Context) []Finding {
	js, err := e.Connect()
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return []Finding{{"NATS", Fault, "the server does not let this command in", "give its token: --nats nats://TOKEN@HOST:PORT (nats.token in the server's --data-dir)"}}
	case err != nil:
		return []Finding{{"NATS", Fault, "not reachable: " + err.Error(), "start Unloop with `unloop up`, or name the server with --nats"}}
	}
	nc := js.Conn()
	e.js, e.parts = js, operator.Parts(ctx, nc)
	rtt, err := nc.RTT()
	if err != nil {
		return []Finding{{"NATS", Fault, "the server does not answer a ping: " + err.Error(), "look at the server's log"}}
	}
	if _, err := e.js.AccountInfo(ctx); err != nil {
		return []Finding{{"NATS", Fault, "JetStream does not answer: " + err.Error(), "enable JetStream on the server, or look at its log"}}
	}
	f := Finding{"NATS", OK, fmt.Sprintf("server %s %s at %s, round trip %s", nc.ConnectedServerName(), nc.ConnectedServerVersion(), nc.ConnectedAddr(), short(rtt)), ""}
	if rtt > slowRoundTrip {
		f.State, f.Mend = Warning, "run gateways and detectors near the NATS server: each check takes two round trips"
	}
	return []Finding{f}
}

// short formats a duration with two or three digits.
func short(d time.Duration) string {
	if d > time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func (e *examination) checkStreams(ctx context.Context) (all []Finding) {
	if e.js == nil {
		return nil
	}
	infos := map[string]*jetstream.StreamInfo{}
	list := e.js.ListStreams(ctx)
	for info := range list.Info() {
		infos[info.Config.Name] = info
	}
	if err := list.Err(); err != nil {
		return []Finding{{"streams", Fault, "could not be listed: " + err.Error(), "look at the server's log"}}
	}
	var missing []string
	var there []*jetstream.StreamInfo
	var bytes, bound uint64
	replicas := map[int]bool{}
	scheme := schemeOf(infos)
	all = append(all, partitionFindings(scheme, infos)...)
	names := natskit.Layout{Partitions: scheme.Count}.Streams()
	for _, name := range names {
		info, found := infos[name]
		if !found {
			missing = append(missing, name)
			continue
		}
		bytes += info.State.Bytes
		bound += uint64(max(info.Config.MaxBytes, 0))
		e.inMemory = info.Config.Storage == jetstream.MemoryStorage
		replicas[info.Config.Replicas] = true
		there = append(there, info)
		all = append(all, streamFindings(info)...)
		if err := natskit.StateFault(info.Config); err != nil {
			all = append(all, Finding{"streams", Fault, err.Error(), "docs/upgrades.md says which releases go together"})
		}
	}
	all = append(all, replicaFindings(there)...)
	linked := regionFindings(there, time.Now())
	all = append(all, e.leftoverFindings(ctx)...)
	if len(missing) > 0 {
		return append(append(all, linked...), Finding{"streams", Fault, "missing: " + strings.Join(missing, ", "), "start a detector, which makes those that are missing; where its user may not, run `unloop nats init` as the operator"})
	}
	if len(all) == 0 {
		all = append(all, Finding{"streams", OK, fmt.Sprintf("all %d are there, %s%s, %d KiB of %d MiB", len(names), copies(replicas), spread(scheme), bytes>>10, bound>>20), ""})
	}
	return append(all, linked...)
}

// schemeOf returns the partition scheme, which the metadata of one stream holds.
func schemeOf(infos map[string]*jetstream.StreamInfo) partition.Scheme {
	if truth := infos[natskit.BucketStream(partition.Truth)]; truth != nil {
		return partition.Parse(truth.Config.Metadata)
	}
	return partition.Scheme{Count: 1}
}

// spread describes the number of partitions; "" for one.
func spread(s partition.Scheme) string {
	if s.Count == 1 {
		return ""
	}
	return fmt.Sprintf(", %d partitions", s.Count)
}

// partitionFindings returns the problems with partitions.
func partitionFindings(s partition.Scheme, infos map[string]*jetstream.StreamInfo) (all []Finding) {
	if s.Phase != partition.Settled {
		all = append(all, Finding{
			"streams", Warning, fmt.Sprintf("the growth from %d to %d partitions has not ended, and checks take more writes meanwhile", s.Before, s.Count),
			fmt.Sprintf("unless it is running, run it again: unloop nats init --partitions %d", s.Count),
		})
	}
	var beyond []string
	for _, bucket := range partition.Buckets {
		for _, name := range partition.Names(bucket, partition.Most)[s.Count:] {
			if info := infos[natskit.BucketStream(name)]; info != nil && info.State.Msgs > 0 {
				beyond = append(beyond, info.Config.Name)
			}
		}
	}
	if len(beyond) > 0 {
		all = append(all, Finding{
			"streams", Fault, fmt.Sprintf("nobody reads %s: the stream %s says that there are %d partitions", strings.Join(beyond, ", "), natskit.BucketStream(partition.Truth), s.Count),
			"the stream was made again, or restored from before a growth: run unloop nats init with --partitions as it was",
		})
	}
	return all
}

// regionFindings returns a finding for each region from which streams are copied.
func regionFindings(infos []*jetstream.StreamInfo, now time.Time) (all []Finding) {
	copies := map[string][]natskit.Copy{}
	for _, info := range infos {
		for _, c := range natskit.Copies(info) {
			copies[c.Region] = append(copies[c.Region], c)
		}
	}
	for _, region := range slices.Sorted(maps.Keys(copies)) {
		all = append(all, regionFinding(region, copies[region], now))
	}
	return all
}

func regionFinding(region string, copies []natskit.Copy, now time.Time) Finding {
	behind, heard, streams := uint64(0), now, make([]string, len(copies))
	for i, c := range copies {
		streams[i], behind = c.Stream, behind+c.Behind
		if c.Fault != "" {
			return Finding{"regions", Warning, fmt.Sprintf("%s is not copied from region %s: %s", c.Stream, region, c.Fault), "run `unloop nats init` there, and look at the servers' logs"}
		}
		if c.Heard.Before(heard) {
			heard = c.Heard
		}
	}
	names := strings.Join(streams, ", ")
	if slices.ContainsFunc(copies, func(c natskit.Copy) bool { return c.Cut(now) }) {
		since := "never heard of"
		if !heard.IsZero() {
			since = "not heard of for " + now.Sub(heard).Round(time.Second).String()
		}
		return Finding{"regions", Warning, fmt.Sprintf("region %s is %s; its %s wait there", region, since, names), "mend the connection between the NATS servers of both regions; each goes on with what it has"}
	}
	return Finding{"regions", OK, fmt.Sprintf("region %s is linked, %d records behind (%s)", region, behind, names), ""}
}

// leftoverFindings returns a warning for each stream of another release, which this one does not read.
func (e *examination) leftoverFindings(ctx context.Context) (all []Finding) {
	left, err := natskit.Leftover(ctx, e.js)
	if err != nil {
		return []Finding{{"streams", Warning, "could not be compared with what other releases write: " + err.Error(), "look at the server's log"}}
	}
	for _, info := range left {
		all = append(all, Finding{
			"streams", Warning, fmt.Sprintf("%s has %d records of another release, which this one does not read", info.Config.Name, info.State.Msgs),
			"run the release that wrote them until they have expired (docs/upgrades.md), or remove them: nats stream rm " + info.Config.Name,
		})
	}
	return all
}

func copies(replicas map[int]bool) string {
	var counts []string
	for n := range replicas {
		counts = append(counts, fmt.Sprint(n))
	}
	slices.Sort(counts)
	return "replicas " + strings.Join(counts, " and ")
}

// streamFindings returns the problems with one stream.
func streamFindings(info *jetstream.StreamInfo) (all []Finding) {
	name := info.Config.Name
	if c := info.Cluster; c != nil && c.Name != "" && c.Leader == "" {
		all = append(all, Finding{"streams", Fault, name + " has no leader", "start the servers that hold it: more than half of its replicas must run"})
	}
	if info.Config.MaxBytes <= 0 {
		all = append(all, Finding{"streams", Fault, name + " has no bound: when the server's disk is full, all streams refuse records, and no loop is found", "nats stream edit " + name + " --max-bytes … (docs/reference/nats.md has the usual sizes)"})
	}
	// A stream that drops its oldest records is full in normal use.
	if natskit.Fullness(info) > nearlyFull && info.Config.Discard == jetstream.DiscardNew {
		all = append(all, Finding{"streams", Warning, fmt.Sprintf("%s is nearly full and refuses new records then", name), "nats stream edit " + name + " --max-bytes … (or --max-msgs, if it has that limit)"})
	}
	return all
}

// replicaFindings returns the problems with replicas in a cluster.
func replicaFindings(infos []*jetstream.StreamInfo) (all []Finding) {
	var alone []string
	behind := map[string][]string{}
	for _, info := range infos {
		c := info.Cluster
		if c == nil || c.Name == "" {
			continue
		}
		if info.Config.Replicas == 1 {
			alone = append(alone, info.Config.Name)
		}
		for _, r := range c.Replicas {
			if r.Offline || !r.Current {
				behind[r.Name] = append(behind[r.Name], info.Config.Name)
			}
		}
	}
	for _, server := range slices.Sorted(maps.Keys(behind)) {
		all = append(all, Finding{"streams", Warning, fmt.Sprintf("the replicas on %s are offline or behind: %s", server, strings.Join(behind[server], ", ")), "start that server, or wait until it has caught up"})
	}
	if len(alone) > 0 {
		all = append(all, Finding{"streams", Warning, "one replica in a cluster, which is lost with its server: " + strings.Join(alone, ", "), "unloop nats init --replicas 3"})
	}
	return all
}

func (e *examination) checkClock(ctx context.Context) []Finding {
	if e.js == nil {
		return nil
	}
	before := time.Now()
	stream, err := e.js.Stream(ctx, "KV_"+schemas.BucketCounters)
	if err != nil || stream.CachedInfo().TimeStamp.IsZero() {
		return nil // checkStreams reports a missing stream
	}
	took := time.Since(before)
	skew := stream.CachedInfo().TimeStamp.Sub(before.Add(took / 2)).Abs()
	const mend = "have NTP set the clocks of this machine and of the NATS servers"
	switch detail := fmt.Sprintf("this machine and the NATS server differ by %s", short(max(skew-took/2, 0))); {
	case skew > wrongClock:
		return []Finding{{"clock", Fault, detail, mend}}
	case skew > skewed:
		return []Finding{{"clock", Warning, detail, mend}}
	default:
		return []Finding{{"clock", OK, detail, ""}}
	}
}
