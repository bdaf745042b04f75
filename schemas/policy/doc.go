// Package policy defines the policy bundle, in which an operator selects traffic and sets
// the detectors and rules for it.
//
// A bundle is read with Parse (or ParseTolerant, for one that a newer version
// pushed) or made by Default when there is none. Gateways compile it for matching;
// this package only says what a bundle holds and whether it is valid.
//
// Parse fills in the defaults of every block, which are in defaults.go. The limits of a
// field are in its struct tag, from which the checks and the JSON Schema
// (bundle.schema.json) are derived.
//
// The package is pure: it knows no NATS, no HTTP server, no clock and no files, and it does
// not decide what is a loop. Callers pass the time.
package policy
