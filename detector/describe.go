package detector

import "github.com/unloop/unloop/schemas/status"

// Describe adds the partitions to the detector's status.
func (d *Detector) Describe(s *status.Status) {
	scheme, _ := d.deps.NATS.Partitions()
	s.Partitions = scheme.Count
}
