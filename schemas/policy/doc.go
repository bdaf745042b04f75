// Package policy is the policy bundle: what an operator writes to say which
// traffic is watched, by which detectors and rules, and how hard.
//
// A bundle is read with Parse (or ParseTolerant, for one that a newer version
// pushed) or made by Default when there is none. Gateways compile it for matching;
// this package only says what a bundle holds and whether it is valid.
//
// Every block's defaults are in defaults.go and are filled in by Parse: the
// fields of a parsed bundle are effective values. The limits of a field stand
// in its struct tag, from which both the checks and the JSON Schema
// (bundle.schema.json) are made.
//
// The package is pure: it knows no NATS, no HTTP server, no clock and no
// files, and it does not decide what is a loop. Whoever needs the time passes
// it in.
package policy
