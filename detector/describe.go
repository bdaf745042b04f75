package detector

import "github.com/unloop/unloop/schemas/status"

// Describe adds the partitions to the detector's status.
func (d *Detector) Describe(s *status.Status) {
	s.Partitions = d.deps.NATS.Partitions().Count
}
