package embedworker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	checks, checkLoop  *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
	batch              prometheus.Histogram
	info               *prometheus.GaugeVec
	cached, unanswered prometheus.Counter
}

// latencies are in seconds, from a cached text to a slow machine's long one.
var latencies = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_semantic_checks_total", Help: "Semantic checks, by what came of them.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unloop_semantic_seconds", Help: "Time of a semantic check's parts: embed and store.", Buckets: latencies,
		}, []string{"part"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unloop_embedder_batch_size", Help: "Texts in one run of the model.", Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "unloop_embedder_info", Help: "1 for the embedder and the vector store that are in use.",
		}, []string{"embedder", "store"}),
		cached: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "unloop_embedder_cached_total", Help: "Texts whose vectors were remembered.",
		}),
		unanswered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "unloop_semantic_unanswered_total", Help: "Semantic answers that could not be sent.",
		}),
	}
	m.checkLoop = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "unloop_check_loop_total", Help: "Calls of Agent Sentinel's CheckLoop by result: detected, clear or error.",
	}, []string{"result"})
	reg.MustRegister(m.checkLoop, m.checks, m.seconds, m.batch, m.info, m.cached, m.unanswered)
	return m
}

// ran notes a run of the model with so many texts.
func (m *metrics) ran(texts int) { m.batch.Observe(float64(texts)) }

func (m *metrics) observe(part string, took time.Duration) {
	m.seconds.WithLabelValues(part).Observe(took.Seconds())
}
