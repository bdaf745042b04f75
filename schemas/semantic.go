package schemas

import "encoding/hex"

// SubjectSemantic carries a SemanticRequest to one of the embedding workers; the answer
// is a SemanticReply (package semanticpb).
const (
	SubjectSemantic  = "loop.semantic"
	QueueEmbedworker = "embedworker"
	// BucketVectors holds a VectorHistory for each write to a scope's memory; see
	// VectorKey.
	BucketVectors = "LOOP_VECTORS"
)

// VectorKey is the key in BucketVectors of one scope's memory, KINDs.SCOPE, to which each
// VectorHistory adds a slot: KINDs.SCOPE.SLOT. KIND is "session", "caller" or "tenant",
// and SCOPE is a KeyHash over the embedder, the shape of its texts and the scope's own
// key.
func VectorKey(kind string, scope []byte) string {
	return KeyToken(kind) + "s." + KeyHash(scope)
}

// EarlierVectorKey is the key of a scope's memory before it had slots: KIND.SCOPE, with
// the hash in hex.
func EarlierVectorKey(kind string, scope []byte) string {
	return KeyToken(kind) + "." + hex.EncodeToString(scope)
}

// EarlierVectorKeys match the keys that EarlierVectorKey returns.
func EarlierVectorKeys() []string { return []string{"session.*", "caller.*", "tenant.*"} }

// StreakKey is the key in BucketSessions of one scope's streak of semantic findings
// under one policy: semantic.MODE.POLICY.SCOPE, with the scope's hash in hex.
func StreakKey(shadow bool, policy, scopeHex string) string {
	return "semantic." + IncidentKey(shadow, policy, scopeHex)
}
