package identity

import "slices"

// Source describes a part of an identity and its sources: the first of From that a request
// has.
type Source struct {
	Part, Is string
	From     []string
}

// Sources describes the parts of an identity, for the reference.
func Sources() []Source {
	return []Source{
		{"caller", "Hash of the API key together with the end user.", []string{"the key that the API takes"}},
		{"end user", "A name, or none.", userMembers},
		{"session", "Hash of the caller with the session's name. Without a name, the same opening of a conversation makes the same session.",
			slices.Concat(sessionHeaders, baggage(baggageHeader), sessionMembers, []string{"the opening of the conversation"})},
		{"run", "One job of an agent, from its first request to its last: all requests of a session.", []string{"the session, which client libraries name by run(NAME)"}},
		{"tenant", "A label.", []string{"the token's claim of --auth-tenant-claim", tenantHeader}},
		{"project", "A label.", []string{projectHeader, "--project of the gateway"}},
	}
}

// baggageHeader precedes the keys of baggage.
const baggageHeader = "Baggage: "

// userMembers and sessionMembers are the members of bodies that name users and sessions. Each
// format reads its own; the test knows them all.
var (
	userMembers = []string{
		"safety_identifier", "user", "metadata.user_id", "requestMetadata.user_id of Converse",
	}
	sessionMembers = []string{
		"conversation of Responses", "metadata.session_id", "requestMetadata.session_id of Converse", "the session in Claude Code's metadata.user_id",
	}
)

// baggage returns the keys of W3C baggage that name sessions, with a prefix.
func baggage(before string) (all []string) {
	for _, key := range baggageKeys {
		all = append(all, before+key)
	}
	return all
}
