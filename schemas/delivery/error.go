package delivery

// Beginnings of Reply.Error for what does not exist.
const (
	ErrorNoEndpoint = "no endpoint has this name"
	ErrorNoMessage  = "the delivery log has no such message"
)
