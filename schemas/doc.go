// Package schemas is the contract between Unloop's services: the subjects of their
// messages, the streams and buckets that they share, and the encoding of names as subject
// tokens and keys. The wire messages are in checkpb and semanticpb, the hashes of what is
// compared in fingerprint, events in event, recordings in record, policy bundles in
// policy, and the SDK for Go in client.
//
// It does not know how a service works, and imports no other module of this repository.
//
// # Words
//
// The code, the documentation, logs and metrics use these words, and one word for each
// thing.
//
//   - request, answer: what a client sends; the reply of the upstream or of Unloop
//   - evidence: what a gateway learns about a request: the check, the reservations, the
//     rules that do not apply
//   - check, decision: a gateway's message about one request to a detector; the detector's
//     reply
//   - counter, watch: the parts of a check: a count of requests; a session's tool rounds
//     or texts to compare
//   - verdict: the result of one rule in a decision
//   - match, detection: the result of a pure package, before it becomes a finding
//   - finding: a detector's report that its threshold was reached, with the action
//   - action: allow, warn, hint, throttle, reject or break
//   - outcome: what a gateway does with a request: forward it, hold it back, add a hint,
//     refuse it, or answer in the model's place
//   - incident: all findings of one policy in one conversation; users see it as a loop
//     with an id
//   - round: one turn of an agent: its calls and their results
//   - fingerprint: a hash of the parts that make two requests the same for a detector
//   - window, cooldown: the time during which hits count; the time during which a block
//     stands
//   - scope: whose texts a semantic check compares: a session's, a caller's or a tenant's
//   - history, embedding, similarity: a scope's last texts; a text as a vector; 1 − cosine
//     distance / 2 of two embeddings
//   - details: the numbers, identifiers and negations that distinguish two texts of the
//     same words
//   - streak: semantic findings in a row
//   - rule, limit: a token bucket or budget of a policy; its state
//   - reservation, correction: the cost that a rule charges before the answer; the
//     difference to the real cost after it
//   - override, kill switch: an operator's block or exemption at run time; a block in a
//     bundle
//   - record: the state that a ledger stores under one key
//   - shadow: a policy that is evaluated and reported, and changes nothing
package schemas
