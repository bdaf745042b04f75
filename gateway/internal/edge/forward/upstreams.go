package forward

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/schemas/kit/metric"
)

// upstreams has the metrics of each upstream, by name.
type upstreams struct {
	known             sync.Map // of *upstreamMetrics
	failures, answers *prometheus.CounterVec
	seconds           *prometheus.HistogramVec
}

// upstreamMetrics are the metrics of one upstream.
type upstreamMetrics struct {
	failures prometheus.Counter
	answers  map[string]prometheus.Counter
	seconds  prometheus.Observer
}

// classes are the labels of answers by their status; the first five stand for hundreds.
var classes = []string{"1xx", "2xx", "3xx", "4xx", "5xx", "429"}

func newUpstreams(reg prometheus.Registerer) *upstreams {
	return &upstreams{
		failures: metric.Counters(reg, "unloop_gateway_upstream_errors_total", "Requests that an upstream did not answer.", "upstream"),
		answers:  metric.Counters(reg, "unloop_gateway_upstream_answers_total", "Upstream answers by status: 1xx, 2xx, 3xx, 4xx (other than 429), 429 or 5xx.", "upstream", "status"),
		seconds:  metric.Histograms(reg, "unloop_gateway_upstream_seconds", "Time until the upstream's answer begins.", []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}, "upstream"),
	}
}

// of returns the metrics of an upstream. All of them exist from its first request on.
func (u *upstreams) of(name string) *upstreamMetrics {
	if known, ok := u.known.Load(name); ok {
		return known.(*upstreamMetrics)
	}
	one := &upstreamMetrics{failures: u.failures.WithLabelValues(name), answers: map[string]prometheus.Counter{}, seconds: u.seconds.WithLabelValues(name)}
	for _, class := range classes {
		one.answers[class] = u.answers.WithLabelValues(name, class)
	}
	u.known.Store(name, one) // another goroutine's has the same metrics
	return one
}

// answered counts an answer and the time until it began.
func (u *upstreamMetrics) answered(status int, after time.Duration) {
	u.answers[class(status)].Inc()
	u.seconds.Observe(after.Seconds())
}

func class(status int) string {
	switch hundreds := status / 100; {
	case status == http.StatusTooManyRequests:
		return "429"
	case 1 <= hundreds && hundreds <= 5:
		return classes[hundreds-1]
	default: // there is no other class
		return "5xx"
	}
}
