package checkpb

// ErrorNotOpen is the ReleaseReply.error for a loop that is not open.
const ErrorNotOpen = "no open loop with this id"
