package policy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// RejectAnswer is how a rejected request is answered: RejectAuto, RejectSynthetic, or the
// status of an error in digits. The empty one leaves it to the gateway.
type RejectAnswer string

// The answers to a rejected request that are no status.
const (
	RejectAuto      RejectAnswer = "auto"      // what ends the client that sent it
	RejectSynthetic RejectAnswer = "synthetic" // a message in the model's place
)

// The least and the greatest status of a reject.
const (
	minReject = 400
	maxReject = 599
)

const wantReject = "must be auto, synthetic, or the status of an error from 400 to 599, such as 429"

// ParseReject reads an answer to rejected requests, as flags and bundles have it.
func ParseReject(text string) (RejectAnswer, error) {
	r := RejectAnswer(text)
	if r == RejectAuto || r == RejectSynthetic {
		return r, nil
	}
	if status, err := strconv.Atoi(text); err != nil || status < minReject || status > maxReject {
		return "", fmt.Errorf("%q %s", text, wantReject)
	}
	return r, nil
}

// Status returns the status of the error; 0 where the answer is none of a fixed status.
func (r RejectAnswer) Status() int {
	if r == "" || r == RejectAuto || r == RejectSynthetic { // without the error of Atoi, which takes memory
		return 0
	}
	status, err := strconv.Atoi(string(r))
	if err != nil {
		return 0
	}
	return status
}

// MarshalJSON writes a status as a number.
func (r RejectAnswer) MarshalJSON() ([]byte, error) {
	if status := r.Status(); status != 0 {
		return json.Marshal(status)
	}
	return json.Marshal(string(r))
}

func (r *RejectAnswer) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!str" || n.Tag == "!!int") {
		if parsed, err := ParseReject(n.Value); err == nil {
			*r = parsed
			return
		}
	}
	d.fault(path, fieldName(path)+" "+wantReject)
}

// retried are the statuses other than 429 that most clients retry.
func retried(status int) bool {
	return status == 408 || status == 409 || status == 425 || status >= 500
}

// checkReject warns of a status after which most clients retry, and reports a faulty answer of
// a bundle that was made in Go.
func (s *Spec) checkReject(r *report, path string) {
	at := join(path, "reject")
	if s.Reject == "" {
		return
	}
	if _, err := ParseReject(string(s.Reject)); err != nil {
		r.fault(at, "reject "+wantReject)
	} else if retried(s.Reject.Status()) {
		r.warn(at, fmt.Sprintf("reject: most clients retry after a %s; 400 ends more of them, and auto answers each with what ends it", s.Reject))
	}
}
