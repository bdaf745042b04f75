package embedworker

import "github.com/unloop/unloop/schemas/status"

// Describe adds the partitions and, once it is known, the embedder to the worker's status.
func (w *Worker) Describe(s *status.Status) {
	s.Partitions = w.deps.NATS.Partitions().Count
	if w.ready.Err() == nil {
		s.Embedder = w.embedderName
	}
}
