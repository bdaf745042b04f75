package embedworker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
)

type metrics struct {
	checks, checkLoop  *prometheus.CounterVec
	embeddings         *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
	batch              prometheus.Histogram
	info               *prometheus.GaugeVec
	cached, unanswered prometheus.Counter
}

// latencies are buckets in seconds, from a cached text to a long one on a slow machine.
var latencies = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		checks:     metric.Counters(reg, "unloop_semantic_checks_total", "Semantic checks by result.", "result"),
		seconds:    metric.Histograms(reg, "unloop_semantic_seconds", "Duration of the parts of a semantic check: embed and store.", latencies, "part"),
		batch:      metric.Histogram(reg, "unloop_embedder_batch_size", "Number of texts in one inference.", prometheus.ExponentialBuckets(1, 2, 7)),
		embeddings: metric.Counters(reg, "unloop_embeddings_total", "Texts and exchanges by the reason for which they were embedded: alike (a remembered one has the same details), earlier (a remembered one without a vector), unshown (the scope remembers one that the request does not show) or always; or left out: unneeded, or missing (a remembered one without a vector that the request does not bring).", "reason"),
		info:       metric.Gauges(reg, "unloop_embedder_info", "Embedder and vector store in use; always 1.", "embedder", "store"),
		cached:     metric.Counter(reg, "unloop_embedder_cached_total", "Texts whose vectors were in the cache."),
		unanswered: metric.Counter(reg, "unloop_semantic_unanswered_total", "Semantic answers that could not be sent."),
		checkLoop:  metric.Counters(reg, "unloop_check_loop_total", "Calls of Agent Sentinel's CheckLoop by result: detected, clear or error.", "result"),
	}
}

// text counts a text that was embedded or left out, by reason.
func (m *metrics) text(reason string) { m.embeddings.WithLabelValues(reason).Inc() }

// ran records an inference with a number of texts.
func (m *metrics) ran(texts int) { m.batch.Observe(float64(texts)) }

func (m *metrics) observe(part string, took time.Duration) {
	m.seconds.WithLabelValues(part).Observe(took.Seconds())
}
