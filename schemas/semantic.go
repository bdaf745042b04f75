package schemas

// SubjectSemantic carries a SemanticRequest to one of the embedding workers; the answer
// is a SemanticReply (package semanticpb).
const (
	SubjectSemantic  = "loop.semantic"
	QueueEmbedworker = "embedworker"
	// BucketVectors holds one VectorHistory for each scope; see VectorKey.
	BucketVectors = "LOOP_VECTORS"
)

// VectorKey is the key in BucketVectors of one scope's history: KIND.SCOPE,
// where KIND is "session", "caller" or "tenant" and SCOPE is a hash over the
// embedder, the shape of its texts and the scope's own key, in hex.
func VectorKey(kind, scopeHex string) string {
	return KeyToken(kind) + "." + scopeHex
}

// StreakKey is the key in BucketSessions of one scope's streak of semantic findings
// under one policy: semantic.MODE.POLICY.SCOPE, with the scope's hash in hex.
func StreakKey(shadow bool, policy, scopeHex string) string {
	return "semantic." + IncidentKey(shadow, policy, scopeHex)
}
