package schemas

import (
	"encoding/hex"
	"strings"
)

// The keys of records before they had hashes of 128 bits. They began with the mode, and
// ended with a whole hash in hex. What is stored under them is continued under today's
// keys.

// EarlierKeys match the earlier keys in BucketCounters, BucketLimits and, of agents'
// sessions, in BucketSessions. None of today's keys in these buckets matches.
func EarlierKeys() []string { return []string{"live.>", "shadow.>"} }

// EarlierCounterKey is the earlier key of a counter's record: MODE.DETECTOR.POLICY.HASH.
// The name is what the record is named by, in most cases the whole fingerprint.
func EarlierCounterKey(shadow bool, detector, policy string, name []byte) string {
	return earlierCounterPrefix(shadow, detector, policy) + hex.EncodeToString(name)
}

func earlierCounterPrefix(shadow bool, detector, policy string) string {
	return mode(shadow) + KeyToken(detector) + "." + KeyToken(policy) + "."
}

// EarlierCounterPattern matches the earlier keys of all counters of a detector under a
// policy.
func EarlierCounterPattern(shadow bool, detector, policy string) string {
	return earlierCounterPrefix(shadow, detector, policy) + "*"
}

// TodaysCounterKey returns the current key for an earlier key of a counter's record; false
// if key is not an earlier one.
func TodaysCounterKey(earlier string) (string, bool) {
	token := strings.Split(earlier, ".")
	if len(token) != 4 || token[0] != "live" && token[0] != "shadow" {
		return "", false
	}
	hash, err := hex.DecodeString(token[3])
	if err != nil {
		return "", false
	}
	return token[1] + "." + token[0] + "." + token[2] + "." + KeyHash(hash), true
}

// EarlierSessionKey is the earlier key of an agent's tool calls: MODE.POLICY.AGENT.
func EarlierSessionKey(shadow bool, policy string, agent []byte) string {
	return IncidentKey(shadow, policy, hex.EncodeToString(agent))
}

// EarlierLimitKey is the earlier key of a rule's record: MODE.POLICY.RULE.HASH.
func EarlierLimitKey(shadow bool, policy, rule string, hash []byte) string {
	return mode(shadow) + KeyToken(policy) + "." + KeyToken(rule) + "." + hex.EncodeToString(hash)
}

// EarlierStreakKey is the earlier key of a scope's streak: semantic.MODE.POLICY.SCOPE.
func EarlierStreakKey(shadow bool, policy string, scope []byte) string {
	return "semantic." + IncidentKey(shadow, policy, hex.EncodeToString(scope))
}

// EarlierStreakKeys match the keys that EarlierStreakKey returns.
func EarlierStreakKeys() []string { return []string{"semantic.>"} }

// EarlierVectorKey is the key of a scope's memory before it had slots: KIND.SCOPE.
func EarlierVectorKey(kind string, scope []byte) string {
	return KeyToken(kind) + "." + hex.EncodeToString(scope)
}

// EarlierVectorKeys match the keys that EarlierVectorKey returns.
func EarlierVectorKeys() []string { return []string{"session.*", "caller.*", "tenant.*"} }
