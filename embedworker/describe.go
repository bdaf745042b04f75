package embedworker

import "github.com/unloop/unloop/schemas/status"

// Describe adds the partitions to the worker's status, and the embedder, once it is known.
func (w *Worker) Describe(s *status.Status) {
	s.Partitions = w.deps.NATS.Partitions().Count
	if w.ready.Err() == nil {
		s.Embedder = w.embedderName
	}
}
