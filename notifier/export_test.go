package notifier

import "time"

// SetMargin sets how much longer than an attempt a claim lasts before another notifier takes
// over its message.
func (n *Notifier) SetMargin(margin time.Duration) {
	if n.fleet != nil {
		n.fleet.pipeline.Margin = margin
	}
}
