// Package recognize decides what the text of prompts, tool calls and tool results
// means for a comparison: which calls and results are the same said again, which parts
// of a result change by themselves, and whether a result failed, a call polls, or a
// message is an agent's summary.
//
// It takes bytes and returns digests of [fingerprint] and yes-or-no answers. It knows
// neither the wire formats nor policies, and has no state.
package recognize
