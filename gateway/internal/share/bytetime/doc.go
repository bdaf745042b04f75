// Package bytetime measures, for tests, the processor time per byte of a parser, in order to
// find quadratic ones: these take hundreds of times as long for some inputs as for others,
// and eight times as long per byte for an input that is eight times as large.
//
// Tests that use it must not run in parallel, since it measures the whole process, and run on
// Linux only.
package bytetime
