package forward

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// upstreams has the metrics of each upstream that was asked.
type upstreams struct {
	mu       sync.RWMutex
	known    map[string]*upstreamMetrics
	failures *prometheus.CounterVec
	answers  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// upstreamMetrics are the metrics of one upstream.
type upstreamMetrics struct {
	failures prometheus.Counter
	answers  map[string]prometheus.Counter
	seconds  prometheus.Observer
}

// classes are the labels of answers by their status.
var classes = []string{"1xx", "2xx", "3xx", "4xx", "429", "5xx"}

func newUpstreams(reg prometheus.Registerer) *upstreams {
	u := &upstreams{
		known: map[string]*upstreamMetrics{},
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_gateway_upstream_errors_total", Help: "Requests that an upstream did not answer.",
		}, []string{"upstream"}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "unloop_gateway_upstream_answers_total", Help: "Upstream answers by status: 1xx, 2xx, 3xx, 4xx (other than 429), 429 or 5xx.",
		}, []string{"upstream", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "unloop_gateway_upstream_seconds", Help: "Time until the upstream's answer begins.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}, []string{"upstream"}),
	}
	reg.MustRegister(u.failures, u.answers, u.seconds)
	return u
}

// of returns the metrics of an upstream. All of them exist from its first request on.
func (u *upstreams) of(name string) *upstreamMetrics {
	u.mu.RLock()
	one := u.known[name]
	u.mu.RUnlock()
	if one == nil {
		one = u.first(name)
	}
	return one
}

// first makes the metrics of an upstream that was not asked before.
func (u *upstreams) first(name string) *upstreamMetrics {
	u.mu.Lock()
	defer u.mu.Unlock()
	if one := u.known[name]; one != nil {
		return one
	}
	one := &upstreamMetrics{failures: u.failures.WithLabelValues(name), answers: map[string]prometheus.Counter{}, seconds: u.seconds.WithLabelValues(name)}
	for _, class := range classes {
		one.answers[class] = u.answers.WithLabelValues(name, class)
	}
	u.known[name] = one
	return one
}

// answered counts an answer and the time until it began.
func (u *upstreamMetrics) answered(status int, after time.Duration) {
	u.answers[class(status)].Inc()
	u.seconds.Observe(after.Seconds())
}

func class(status int) string {
	if status == http.StatusTooManyRequests {
		return "429"
	}
	switch status / 100 {
	case 1:
		return "1xx"
	case 2:
		return "2xx"
	case 3:
		return "3xx"
	case 4:
		return "4xx"
	default: // there is no other class
		return "5xx"
	}
}
