// Package bundle compiles policy bundles: [Compile] turns what an operator wrote into a
// [Set], which finds the policies that apply to a request and knows the prices of models.
//
// It knows neither HTTP nor NATS nor a clock, and does not decide what is a loop. Package
// policy parses and validates bundles.
package bundle
