// Package metric makes the metrics of a service. Each function registers what it returns,
// and panics if the name is taken; a nil registry registers nothing.
//
// It knows no metric by name.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Counter returns a new counter.
func Counter(reg prometheus.Registerer, name, help string) prometheus.Counter {
	return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters returns new counters, one for each combination of the labels' values.
func Counters(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// CounterFunc adds a counter whose value read returns.
func CounterFunc(reg prometheus.Registerer, name, help string, read func() float64) {
	promauto.With(reg).NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
}

// Gauge returns a new gauge.
func Gauge(reg prometheus.Registerer, name, help string) prometheus.Gauge {
	return promauto.With(reg).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges returns new gauges, one for each combination of the labels' values.
func Gauges(reg prometheus.Registerer, name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// GaugeFunc adds a gauge whose value read returns.
func GaugeFunc(reg prometheus.Registerer, name, help string, read func() float64) {
	promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// Histogram returns a new histogram with the given buckets.
func Histogram(reg prometheus.Registerer, name, help string, buckets []float64) prometheus.Histogram {
	return promauto.With(reg).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// Histograms returns new histograms, one for each combination of the labels' values.
func Histograms(reg prometheus.Registerer, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(reg).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}
