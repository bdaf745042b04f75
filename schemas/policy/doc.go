// Package policy is the policy bundle: what an operator writes to say which
// traffic is watched, by which detectors and rules, and how hard.
//
// A bundle is read with Parse (or ParseTolerant, for one that a newer version
// pushed) or made by Default when there is none. Compile turns it into a Set,
// which answers for each request which policies match it.
//
//	bundle, err := policy.Parse(data)
//	set, err := bundle.Compile()
//	for _, p := range set.Match(&policy.Request{Method: "POST", Path: "/v1/messages"}) { … }
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
