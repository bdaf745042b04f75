package checkpb

// ErrorStalled is the Decision.error of a detector that was frozen when the check
// arrived. It has counted nothing, so that another may.
const ErrorStalled = "detector was stalled"

// ErrorOverloaded is the Decision.error of a detector that works on as many messages as it
// may. It has counted nothing.
const ErrorOverloaded = "detector overloaded"
