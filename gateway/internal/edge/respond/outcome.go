package respond

import (
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unloop/unloop/gateway/internal/decide/outcome"
	"github.com/unloop/unloop/gateway/internal/edge/intake"
	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/gateway/internal/wire/request"
	"github.com/unloop/unloop/schemas/kit/metric"
)

// Writer writes the outcomes of requests that are not forwarded. Make it with NewWriter.
type Writer struct {
	now       func() time.Time
	synthetic *prometheus.CounterVec
	// buffers is a pool of buffers for refusals.
	buffers sync.Pool
}

// NewWriter returns a writer.
func NewWriter(now func() time.Time, reg prometheus.Registerer) *Writer {
	return &Writer{now: now, synthetic: metric.Counters(reg, "unloop_gateway_synthetic_answers_total", "Rejected requests that got a message in place of the model's, by format.", "format")}
}

// Outcome writes the outcome of a request and returns its status. If the format has no
// synthetic answers, the request is refused.
func (wr *Writer) Outcome(w http.ResponseWriter, r *http.Request, req *request.Request, o *outcome.Outcome) (status int) {
	intake.Hurry(r)
	if o.Text != "" {
		answer, err := req.Provider.Answer(req.Prompt, provider.Reply{ID: nuid.Next(), Text: o.Text, At: wr.now(), URL: r.URL})
		if err == nil {
			wr.synthetic.WithLabelValues(req.Provider.Name()).Inc()
			if answer.ContentType == provider.TypeEvents {
				w.Header().Set("Cache-Control", "no-cache")
			}
			o.Headers.Put(w.Header())
			Write(w, o.Status, answer.ContentType, answer.Body)
			return o.Status
		}
		refused := o.Refused()
		o = &refused
	}
	o.Headers.Put(w.Header())
	buffer, ok := wr.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	*buffer = o.Body((*buffer)[:0], req.Provider)
	Write(w, o.Status, provider.TypeJSON, *buffer)
	wr.buffers.Put(buffer)
	return o.Status
}
