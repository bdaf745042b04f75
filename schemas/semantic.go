package schemas

// SubjectSemantic carries a SemanticRequest to one of the embedding workers; the answer
// is a SemanticReply (package semanticpb).
const (
	SubjectSemantic  = "loop.semantic"
	QueueEmbedworker = "embedworker"
	// BucketVectors holds a VectorHistory for each write to a scope's memory; see
	// VectorKey.
	BucketVectors = "LOOP_VECTORS"
)

// VectorKey is the key in BucketVectors of one scope's memory, KINDs.SCOPE. Each
// VectorHistory adds a slot: KINDs.SCOPE.SLOT. KIND is "session", "caller" or "tenant",
// and SCOPE is a KeyHash over the embedder, the shape of its texts and the scope's own
// key.
func VectorKey(kind string, scope []byte) string {
	return KeyToken(kind) + "s." + KeyHash(scope)
}

// StreakKey is the key in BucketSessions of one scope's streak of semantic findings
// under one policy: streak.MODE.POLICY.HASH, with the scope's hash.
func StreakKey(shadow bool, policy string, scope []byte) string {
	return "streak." + mode(shadow) + KeyToken(policy) + "." + KeyHash(scope)
}
