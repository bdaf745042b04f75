package event

// Severity says how urgent an event is for an operator.
type Severity string

// The severities, the least urgent first.
const (
	// Info: the policy only watches.
	Info Severity = "info"
	// Warning: requests pass, with a warning, a hint or a delay.
	Warning Severity = "warning"
	// Critical: requests are stopped.
	Critical Severity = "critical"
)

// Severity returns the severity of an event by its mode and action.
func (e Event) Severity() Severity {
	switch {
	case e.Data.Mode == ModeShadow:
		return Info
	case e.Data.Action == "reject", e.Data.Action == "break":
		return Critical
	case e.Data.Action == "allow":
		return Info
	default:
		return Warning
	}
}
