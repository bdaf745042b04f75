// Package fingerprint defines the hashes that gateways and detectors exchange and
// store: of JSON values, tool calls, results, messages and the sequences of them.
//
// Gateways compute them, and detectors compare them with stored ones: a change of a format
// restarts every count. The package knows nothing of HTTP, NATS or policies, and does not look
// into texts: gateways clean them before.
//
// There are two kinds of hashes. Inside one value, where many small hashes are made, it is
// XXH3-128, which is fast and does not withstand an adversary. A client that sends colliding
// values can only make its own requests look alike, and one that wants them to look different
// need only change a byte. What leaves a process, or is compared between tenants, is a
// [Fingerprint]: SHA-256 over length-prefixed fields under a domain tag.
package fingerprint
