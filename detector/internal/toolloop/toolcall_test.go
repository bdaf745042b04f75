package toolloop_test

import (
	"regexp"
	"strings"

	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// toolCall makes a call much as a gateway does, from what a body has. An empty id is
// none, an empty result is not known yet.
func toolCall(tool, args, id string, result ...string) toolloop.Call {
	arguments, err := fingerprint.JSON([]byte(args))
	if err != nil {
		arguments = fingerprint.Bytes([]byte(args))
	}
	c := toolloop.Call{Tool: tool, Key: fingerprint.Call(tool, arguments)}
	if id != "" {
		c.ID = hash(id)
	}
	for _, text := range result {
		if c.Result = hash(text); strings.TrimSpace(text) == "" {
			c.Result = fingerprint.EmptyResult()
		}
		if c.Failed = failed.MatchString(text); c.Failed {
			c.Class = errorClass(text)
		}
	}
	return c
}

// failed finds the failed results of real sessions: by their first word, or by an exit
// code.
var failed = regexp.MustCompile(`(?i)^\s*(error|fatal|exception|traceback|invalid|your proposed edit)\b|command not found|no such file|exit code:? [1-9]`)

var digits = regexp.MustCompile(`\d+`)

// errorClass is the kind of an error: its first line without numbers.
func errorClass(message string) fingerprint.Digest {
	first, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return hash(digits.ReplaceAllString(first, "0"))
}
