package toolloop_test

import (
	"github.com/unloop/unloop/detector/internal/toolloop"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// toolCall makes a call as a gateway does, from what a body has. An empty id is
// none, an empty result is not known yet.
func toolCall(tool, args, id string, result ...string) toolloop.Call {
	c := toolloop.Call{
		Tool: tool, Key: fingerprint.Call(tool, []byte(args)), Poll: fingerprint.IsPoll(tool, []byte(args)),
	}
	if id != "" {
		c.ID = hash(id)
	}
	for _, text := range result {
		c.Result = fingerprint.Result([]byte(text), nil)
		if c.Failed = fingerprint.LooksFailed([]byte(text)); c.Failed {
			c.Class = fingerprint.ErrorClass([]byte(text))
		}
	}
	return c
}
