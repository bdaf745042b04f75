// Package message is the common form of messages in all wire formats: a list of parts, and
// digests of them. The same message has the same digests in every format.
//
// Parts hold slices of the body. The package knows no wire format, no conversation and
// no policy.
package message

import "github.com/unloop/unloop/schemas/fingerprint"

// Role is the author of a message.
type Role uint8

// The roles. Tool is a message with only tool results, also in formats that give them the
// user's role.
const (
	User Role = iota
	Assistant
	System
	Tool
)

var roleNames = [...]string{User: "user", Assistant: "assistant", System: "system", Tool: "tool"}

// Kind is the kind of a part.
type Kind uint8

// The kinds. The thinking of a model is not recorded.
const (
	// Text has a JSON string as its value.
	Text Kind = iota
	// Call has the arguments as its value: JSON, or a JSON string with JSON in it.
	Call
	// Result has no value. Its content are the parts with Inside set that follow it.
	Result
	// Other is an image, a document or the like: any JSON.
	Other
	// Field is a further member of the message.
	Field
)

// Part is one part of a message.
type Part struct {
	Kind Kind
	// Inside marks content of the result before it.
	Inside bool
	// Failed says that the format marks a result as an error.
	Failed bool
	// Fine says that the format marks a result as no error.
	Fine bool
	// Pending says that the format marks a result as not final.
	Pending bool
	// Provided marks a call of a tool of the provider's, which a request need not list
	// by name.
	Provided bool
	// ID matches results with calls. Without one they match by Name, in order.
	ID   []byte
	Name []byte
	// Mark distinguishes a call from an equal one, as a signature does.
	Mark  []byte
	Value []byte
	// Known is a call that the body only refers to; nil for one that it contains.
	Known *ToolCall

	// sum identifies Name and Value in a Cache; zero until it is needed.
	sum CacheKey
}

// ToolCall is one call with its result.
type ToolCall struct {
	Tool string
	// Key is recognize.Call.
	Key fingerprint.Digest
	// Result is recognize.Result of the result; zero as long as that is not known or
	// not final.
	Result fingerprint.Digest
	// Class is recognize.ErrorClass of the result of a failed call.
	Class fingerprint.Digest
	// ID distinguishes a call from an equal one: its call id and its signature or, without
	// them, the words before it. It is zero for a call without any of them.
	ID fingerprint.Digest
	// Failed says that the result reports an error.
	Failed bool
	// Poll is recognize.Traits.Poll.
	Poll bool
	// NotOffered says that the request lists its tools without this one.
	NotOffered bool
	// Provided marks a tool of the provider's, which a request need not list.
	Provided bool
	// Ours marks a result that is a text of Unloop's.
	Ours bool
	// Loose is the key without the values that change by themselves and, for a failed
	// call, without numbers. It is zero if that is no evidence for the call.
	Loose fingerprint.Digest
	// Soft marks a call that was read in a text that may be no action.
	Soft bool
	// Empty says that the call searches for something and that its result has nothing.
	Empty bool
	// Wait says that the call lets time pass.
	Wait bool
	// Once says that the call changes something or gives a task to another agent: made
	// again, it repeats itself whatever it brings.
	Once bool
	// Plain says that Class covers all of the error.
	Plain bool
	// Look says that the call looks at something which others may change.
	Look bool
	// Retold says that each line of the result stands in an earlier result. It is set only
	// in the newest round of a history.
	Retold bool
	// Long says that the result is more than an acknowledgement, and Shown that it has
	// a picture or the like.
	Long, Shown bool
}

// CallID returns the ID of a call that has nothing but a call id.
func CallID(id []byte) fingerprint.Digest {
	return fingerprint.Chain(fingerprint.Digest{}, fingerprint.Bytes(id))
}

// Effective returns the role of a message: Tool for a user message with only tool results.
func Effective(role Role, parts []Part) Role {
	if role != User {
		return role
	}
	results := false
	for i := range parts {
		switch {
		case parts[i].Kind == Result:
			results = true
		case !parts[i].Inside && parts[i].Kind != Field:
			return User
		}
	}
	if results {
		return Tool
	}
	return User
}

// Inside returns the content of the result before rest.
func Inside(rest []Part) []Part {
	n := 0
	for n < len(rest) && rest[n].Inside {
		n++
	}
	return rest[:n]
}

// Has reports whether a message has a part of a kind.
func Has(parts []Part, kind Kind) bool {
	for i := range parts {
		if parts[i].Kind == kind {
			return true
		}
	}
	return false
}
