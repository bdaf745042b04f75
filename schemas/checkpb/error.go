package checkpb

// Errors in replies of detectors.
const (
	// ErrorStalled is the Decision.error of a detector that was frozen when the check
	// arrived. It has counted nothing, so the gateway may ask another one.
	ErrorStalled = "detector was stalled"
	// ErrorOverloaded is the Decision.error of a detector with too many messages in flight. It
	// has counted nothing.
	ErrorOverloaded = "detector overloaded"
	// ErrorNotOpen is the ReleaseReply.error for a loop that is not open.
	ErrorNotOpen = "no open loop with this id"
)
