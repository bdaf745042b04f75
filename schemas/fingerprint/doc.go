// Package fingerprint says when two prompts, tool calls or tool results are the
// same thing said again.
//
// The gateway, the check API, the MCP server and the replay command all hash
// through this package, so that a call seen in one of them is recognised in
// the others. It knows nothing of HTTP, NATS or policies: it takes bytes, and
// returns digests and yes-or-no answers about text.
//
// Two kinds of hash are in use. Inside one value, where many small hashes are
// made, it is XXH3-128: fast, and not meant to withstand an adversary. One who
// sends colliding values can only make his own requests look alike, and one
// who wants them to look different need only change a byte. What leaves a
// process, or is compared between tenants, is a [Fingerprint]: SHA-256 over
// length-prefixed fields under a domain tag.
package fingerprint
