// Package fingerprint defines the hashes that gateways and detectors exchange and
// store: of JSON values, tool calls, results, messages and the sequences of them.
//
// Gateways make them, detectors and the stored state compare them: a change of a
// format makes every count start again. The package knows nothing of HTTP, NATS or
// policies, and does not look into texts: gateways clean them before.
//
// Two kinds of hash are in use. Inside one value, where many small hashes are
// made, it is XXH3-128: fast, and not meant to withstand an adversary. One who
// sends colliding values can only make his own requests look alike, and one
// who wants them to look different need only change a byte. What leaves a
// process, or is compared between tenants, is a [Fingerprint]: SHA-256 over
// length-prefixed fields under a domain tag.
package fingerprint
