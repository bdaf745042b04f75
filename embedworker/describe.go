package embedworker

import "github.com/unloop/unloop/schemas/status"

// Describe adds the partitions to the worker's status, and the embedder, once it is known.
func (w *Worker) Describe(s *status.Status) {
	scheme, _ := w.deps.NATS.Partitions()
	s.Partitions = scheme.Count
	if w.ready.Err() == nil {
		s.Embedder = w.embedderName
	}
}
