// Package recognize normalizes and classifies the text of prompts, tool calls and tool
// results: which calls and results count as the same, which parts of a result change on
// every run, and whether a result failed, a call polls, or a message is a summary.
//
// It takes bytes and returns digests of [fingerprint] and booleans. It knows neither wire
// formats nor policies, and has no state.
package recognize
