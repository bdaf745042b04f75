package finding

import (
	"fmt"
	"time"
)

// Hint tells the model what it did and, if the finding is one about tool calls, what to
// do. It returns "" for a detector that is not in the catalogue.
func (f Facts) Hint() string {
	_, hint := f.templates()
	return f.Fill(hint)
}

const untilReleased = "All requests are refused until a human sends a message or releases the loop."

// advice says what to do, which depends on the action.
func (f Facts) advice() string {
	k := Of(f.Detector, f.Rule)
	switch {
	case f.Rule == Breaker || f.Action == "break":
		return untilReleased
	case f.Rule == NotOffered:
		return k.Next
	case f.Action == "reject":
		return "This call is blocked: take a different approach, or say what stands in the way."
	case f.Backoff > 0:
		return fmt.Sprintf("Wait %d seconds before asking again, or go on with something else.", f.Backoff)
	case f.Similar:
		return findCause
	case k.Next != "":
		return k.Next
	}
	return "Use what it already told you, or take a different approach."
}

// between describes the results of the calls.
func (f Facts) between() string {
	switch {
	case f.Once:
		return ", and takes effect each time"
	case f.Worked:
		return " and gave the same result each time, whatever was done in between"
	}
	return " and gave nothing new"
}

// passed returns the time that polls took, if it is at least a minute.
func (f Facts) passed() string {
	switch minutes := int(f.Passed / time.Minute); {
	case minutes < 1:
		return ""
	case minutes == 1:
		return " within a minute"
	case minutes < 120:
		return fmt.Sprintf(" within %d minutes", minutes)
	default:
		return fmt.Sprintf(" within %d hours", minutes/60)
	}
}
