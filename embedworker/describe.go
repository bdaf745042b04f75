package embedworker

import "github.com/unloop/unloop/schemas/status"

// Describe adds the embedder to the worker's status, once it is known.
func (w *Worker) Describe(s *status.Status) {
	if w.ready.Err() == nil {
		s.Embedder = w.embedderName
	}
}
