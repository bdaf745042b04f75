// Package bundle is a policy bundle made ready for requests: [Compile] turns what an
// operator wrote into a [Set] of policies, which finds those that apply to a request
// and knows what models cost.
//
// It knows neither HTTP nor NATS nor a clock, and does not decide what is a loop.
// Reading and checking a bundle is the work of the policy package.
package bundle
