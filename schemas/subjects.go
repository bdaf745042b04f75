package schemas

import (
	"encoding/base64"
	"strings"
)

// Subjects of the decision path. All bodies are protobuf messages (package checkpb).
const (
	// SubjectCheck carries a CheckBatch; the answer is a DecisionBatch, or several if the
	// sender takes parts.
	SubjectCheck = "loop.check"
	// SubjectCooldown broadcasts a Cooldown to every gateway.
	SubjectCooldown = "loop.cooldown"
	// SubjectRelease carries a ReleaseRequest; the answer is a ReleaseReply.
	SubjectRelease = "loop.release"
	// SubjectOutcome carries an Outcome to one detector. The answer, if one is asked for, is
	// a Decision without content, once the outcome is stored.
	SubjectOutcome = "loop.outcome"
	// SubjectForget broadcasts a Forget to every gateway.
	SubjectForget = "loop.forget"
	// SubjectOwed broadcasts an Owed to every gateway.
	SubjectOwed = "loop.owed"
	// SubjectAudit begins the subjects of StreamAudit.
	SubjectAudit = "loop.audit"
	// SubjectDetectors begins the subjects of detectors by their names, which carry a
	// Handover; the answer is a HandoverReply.
	SubjectDetectors = "loop.detectors"
	// SubjectStatus carries an empty request to every part; each answers with its
	// status.Status as JSON.
	SubjectStatus = "loop.status"
)

// RegionSubject begins the subjects on which a region's records cross to the other side of
// its link.
func RegionSubject(region string) string { return "loop.region." + Token(region) }

// Subjects of the notifiers. The bodies of requests and answers are JSON (package
// delivery).
const (
	// SubjectDeadLetter begins the subjects of StreamDeadLetters; the endpoint follows.
	SubjectDeadLetter = "loop.deadletter"
	// SubjectResend carries a delivery.Request for another attempt at a message; the
	// answer is a delivery.Reply.
	SubjectResend = "loop.delivery.resend"
	// SubjectTestSend carries a delivery.Request for a test message; the answer is a
	// delivery.Reply.
	SubjectTestSend = "loop.delivery.test"
	// SubjectEnable carries a delivery.Request to use an endpoint again that was
	// disabled; the answer is a delivery.Reply.
	SubjectEnable = "loop.delivery.enable"
)

// Queue groups: each message goes to one member.
const (
	QueueDetector = "detector"
	QueueNotifier = "notifier"
)

// JetStream streams and key-value buckets.
const (
	// StreamPrefix begins the names of all streams and buckets.
	StreamPrefix = "LOOP_"
	// StreamEvents holds the events of all loops; it is bounded in age and size.
	StreamEvents = "LOOP_EVENTS"
	// BucketCounters holds one record for each counter; see CounterKey.
	BucketCounters = "LOOP_COUNTERS"
	// BucketBlocks holds the cooldowns in force, by the keys of their counters.
	BucketBlocks = "LOOP_BLOCKS"
	// BucketIncidents holds one record for each open incident; see IncidentKey.
	BucketIncidents = "LOOP_INCIDENTS"
	// BucketTimers holds a timer for each open incident, under the loop's id and the
	// incident's key in BucketIncidents. A timer has no value. It expires when the incident may be over.
	BucketTimers = "LOOP_TIMERS"
	// BucketSessions holds one record for each agent's tool calls and for each scope's
	// semantic findings; see SessionKey and StreakKey.
	BucketSessions = "LOOP_SESSIONS"
	// BucketPolicies holds the policy bundle and what all gateways share, such as the
	// key that callers are hashed with.
	BucketPolicies = "LOOP_POLICIES"
	// BucketLimits holds one record for each token bucket and combination of descriptor
	// values; see LimitKey.
	BucketLimits = "LOOP_LIMITS"
	// BucketBudgets holds the same for budgets and circuit breakers, which outlive the
	// requests that they count. A full one refuses new records.
	BucketBudgets = "LOOP_BUDGETS"
	// BucketNotifications holds what endpoints are owed, and the state of endpoints and of
	// their throttles; see OwedKey, EndpointKey and ThrottleKey.
	BucketNotifications = "LOOP_NOTIFICATIONS"
	// BucketDeliveries holds the log of deliveries; see DeliveryKey.
	BucketDeliveries = "LOOP_DELIVERIES"
	// StreamDeadLetters holds the messages that were given up, on
	// SubjectDeadLetter.ENDPOINT.
	StreamDeadLetters = "LOOP_DEADLETTERS"
	// BucketOverrides holds what operators block or exempt; see Override.
	BucketOverrides = "LOOP_OVERRIDES"
	// BucketSilences holds the silences of notifications by their ids; see package silence.
	BucketSilences = "LOOP_SILENCES"
	// StreamAudit holds what operators did, on SubjectAudit.ACTION; see Audit.
	StreamAudit = "LOOP_AUDIT"
)

// MirroredBuckets and CollectedStreams cross between regions: the buckets from the origin to
// all others, and the streams from all others to the origin.
var (
	MirroredBuckets  = []string{BucketPolicies, BucketOverrides}
	CollectedStreams = []string{StreamEvents, StreamAudit}
)

// EndpointConsumers begins the names of EndpointConsumer.
const EndpointConsumers = "notifier-"

// EndpointConsumer is the durable consumer on StreamEvents that notifiers share for one
// endpoint.
func EndpointConsumer(endpoint string) string { return EndpointConsumers + KeyToken(endpoint) }

// KeyCallerHash is the key in BucketPolicies of the 32 random bytes with which callers
// are hashed, unless others are configured.
const KeyCallerHash = "caller-hash-key"

// KeyBundle is the key in BucketPolicies of the policy bundle as it was pushed. Its
// revisions are the bundle's history.
const KeyBundle = "bundle"

// Token encodes a text as one token of a subject: bytes outside [A-Za-z0-9_-] are
// percent-encoded, and the empty text becomes "_".
func Token(s string) string {
	if s == "" {
		return "_"
	}
	return escape(s, '%')
}

// KeyToken is Token for keys of key-value buckets, where '%' is not allowed:
// it escapes with '='.
func KeyToken(s string) string {
	if s == "" {
		return "_"
	}
	return escape(s, '=')
}

// keyHash is the number of bytes of a hash in a key: 128 bits, enough to be unique.
const keyHash = 16

// KeyHash is the token of a hash in keys of key-value buckets: its first 16 bytes in
// base64url, which are 22 characters.
func KeyHash(hash []byte) string {
	return base64.RawURLEncoding.EncodeToString(hash[:min(len(hash), keyHash)])
}

func escape(s string, mark byte) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = isTokenByte(s[i])
	}
	if plain {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; isTokenByte(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{mark, hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func isTokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// mode begins the keys of records: those of policies that only watch are apart.
func mode(shadow bool) string {
	if shadow {
		return "shadow."
	}
	return "live."
}

// CounterKey is the key in BucketCounters of one counter's record:
// DETECTOR.MODE.POLICY.HASH, where MODE is "live" or "shadow" and HASH the KeyHash of the
// fingerprint.
func CounterKey(shadow bool, detector, policy string, fingerprint []byte) string {
	return counterPrefix(shadow, detector, policy) + KeyHash(fingerprint)
}

func counterPrefix(shadow bool, detector, policy string) string {
	return KeyToken(detector) + "." + mode(shadow) + KeyToken(policy) + "."
}

// CounterPattern matches the keys of all counters of a detector under a policy.
func CounterPattern(shadow bool, detector, policy string) string {
	return counterPrefix(shadow, detector, policy) + "*"
}

// IncidentKey is the key in BucketIncidents of one conversation's incident under one
// policy: MODE.POLICY.CONVERSATION. The conversation is the hash of the session, or the
// fingerprint if there is no session, in hex.
func IncidentKey(shadow bool, policy, conversationHex string) string {
	return mode(shadow) + KeyToken(policy) + "." + conversationHex
}

// DurableResolver is the durable consumer on BucketTimers that detectors share.
const DurableResolver = "detector-resolver"

// SessionKey is the key in BucketSessions of one agent's tool calls under one policy:
// tool.MODE.POLICY.HASH. The hash is that of the session and of the agent's instructions
// and tools.
func SessionKey(shadow bool, policy string, agent []byte) string {
	return "tool." + mode(shadow) + KeyToken(policy) + "." + KeyHash(agent)
}

// LimitKey is the key in BucketLimits or BucketBudgets of a rule's record for one combination of its
// descriptors' values: rule.MODE.POLICY.RULE.HASH.
func LimitKey(shadow bool, policy, rule string, hash []byte) string {
	return "rule." + mode(shadow) + KeyToken(policy) + "." + KeyToken(rule) + "." + KeyHash(hash)
}

// AnswerKey is the key in BucketSessions of the session that an answer belongs to. The
// answer is named by a hash of its caller and id, in hex.
func AnswerKey(answerHex string) string { return "answer." + answerHex }

// AnswerCallsKey is the key in BucketSessions of the tool calls whose results the client
// will send after an answer, or in a conversation; named as in AnswerKey.
func AnswerCallsKey(answerHex string) string { return "calls." + answerHex }

// AnswerAskerKey is the key in BucketSessions of the caller of an answer that the client
// fetches later; named as in AnswerKey.
func AnswerAskerKey(answerHex string) string { return "asker." + answerHex }

// AnswerFinishedKey is the key in BucketSessions of the mark that the reservations for
// such an answer have been corrected; named as in AnswerKey.
func AnswerFinishedKey(answerHex string) string { return "settled." + answerHex }

// OwedPrefix begins the keys of OwedKey.
const OwedPrefix = "owed."

// OwedKey is the key in BucketNotifications of what an endpoint is owed about one group of
// loops: owed.ENDPOINT.HASH, with a hash of the group's key, in hex.
func OwedKey(endpoint, hashHex string) string {
	return OwedPrefix + KeyToken(endpoint) + "." + hashHex
}

// EndpointPrefix begins the keys of EndpointKey.
const EndpointPrefix = "endpoint."

// EndpointKey is the key in BucketNotifications of an endpoint's state: endpoint.ENDPOINT.
func EndpointKey(endpoint string) string { return EndpointPrefix + KeyToken(endpoint) }

// ThrottleKey is the key in BucketNotifications of an endpoint's throttle:
// throttle.ENDPOINT.
func ThrottleKey(endpoint string) string { return "throttle." + KeyToken(endpoint) }

// DeliveryKey is the key in BucketDeliveries of a message: ENDPOINT.MESSAGE.
func DeliveryKey(endpoint, message string) string {
	return KeyToken(endpoint) + "." + KeyToken(message)
}

// DeadLetterSubject is the subject of an endpoint's dead letters.
func DeadLetterSubject(endpoint string) string { return SubjectDeadLetter + "." + Token(endpoint) }
