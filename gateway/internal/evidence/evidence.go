// Package evidence makes the check that detectors get about a request.
//
// It takes values and a time. It may not know the network, a clock or metrics, and
// it decides nothing: package outcome does, by the detectors' decision.
package evidence

// Names of the detectors.
const (
	DetectorRequest  = "request"
	DetectorPrompt   = "prompt"
	DetectorTool     = "tool"
	DetectorCycle    = "cycle"
	DetectorSemantic = "semantic"

	DetectorUninspected = "uninspected"
	DetectorUsers       = "users"
)
