package ledger

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	writes, folded, conflicts, reads, unreadable, lost, behind prometheus.Counter
	// seconds is the time until the server answered a write.
	seconds prometheus.Histogram
}

// latencies are in seconds, from a server in the process to a slow disk.
var latencies = []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}

func newMetrics(reg prometheus.Registerer, bucket string) *metrics {
	labels := prometheus.Labels{"bucket": bucket}
	counter := func(name, help string) prometheus.Counter {
		return register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "unloop", Subsystem: "ledger", Name: name, Help: help, ConstLabels: labels,
		}))
	}
	return &metrics{
		writes:     counter("writes_total", "Records written."),
		folded:     counter("folded_total", "Updates that shared another update's write."),
		conflicts:  counter("conflicts_total", "Writes refused because another process wrote first."),
		reads:      counter("reads_total", "Records read after a conflict."),
		lost:       counter("lost_total", "Records that disappeared before they expired: a full bucket dropped them, or the bucket was recreated."),
		behind:     counter("behind_lost_total", "Updates lost whose requests did not wait for them: another process wrote first, or the write failed."),
		unreadable: counter("unreadable_total", "Stored records that could not be read and were started again."),
		seconds: register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "unloop", Subsystem: "ledger", Name: "write_seconds",
			Help: "Latency of writes.", ConstLabels: labels, Buckets: latencies,
		})),
	}
}

// register returns c, or the collector that another ledger of the same bucket registered.
func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if reg == nil {
		return c
	}
	if shared, ok := errors.AsType[prometheus.AlreadyRegisteredError](reg.Register(c)); ok {
		if known, ok := shared.ExistingCollector.(C); ok {
			return known
		}
	}
	return c
}
