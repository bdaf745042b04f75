// Package toolparams has the parameters of the tool and cycle detectors: policies set
// them, gateways send them with each check, and detectors evaluate tool calls by them.
// Package checkpb has their codec. This package does not know how they are used.
package toolparams

import "time"

// Params are the thresholds and lists. Counts include the call or round that is
// evaluated.
type Params struct {
	// A call that repeats itself is warned of from WarnThreshold occurrences on and
	// blocked from BlockThreshold on, and after MaxWarnings warnings of it.
	WarnThreshold, BlockThreshold, MaxWarnings int
	// PollMultiplier multiplies both thresholds for polls, and the repeats of a
	// cycle of polls.
	PollMultiplier int
	// PollLimit is the number of seconds for which a poll may bring the same result, if
	// its occurrences come slowly; 0 for any time.
	PollLimit int
	// WorkMultiplier multiplies BlockThreshold for occurrences of a call between which
	// other work was done, and FailedWorkMultiplier WarnThreshold where the call fails
	// each time. From there on they are warned of. No policy sets them, and they are
	// not sent.
	WorkMultiplier, FailedWorkMultiplier int
	// CircuitBreaker is the number of calls since the last human message above which the
	// session breaks; 0 for never.
	CircuitBreaker int
	// OutcomeWarn is the number of identical results from which on a call is
	// warned of, OutcomeBlock the one after which its next occurrence is blocked;
	// 0 for off.
	OutcomeWarn, OutcomeBlock int
	// Remember is the number of rounds that are remembered.
	Remember int
	// Idle is the time without a request after which a session is forgotten, in whole
	// seconds.
	Idle time.Duration
	// IgnoreResults counts calls whatever their results are.
	IgnoreResults bool
	// Backoff are the pauses, in seconds, that are suggested after each poll in
	// turn; the last goes on.
	Backoff []int

	// Exempt, ReadOnly and PollTools are globs over tool names (* and ?): tools that
	// are never counted, that change nothing, and whose every call is a poll.
	Exempt, ReadOnly, PollTools []string
	// PerTool are thresholds by tool; the first that matches holds.
	PerTool []Rule

	// EmptyThreshold is the number of rounds in a row in which a tool brings the same
	// empty result, whatever its arguments, at which it is warned of, and again at
	// each multiple; 0 for off.
	EmptyThreshold int
	// NothingNew is the number of rounds in a row, all of whose calls and results
	// were seen since the last human message, from which on they are warned of; 0
	// for off. Polls count PollMultiplier times less.
	NothingNew int

	// ErrorThreshold is how often one error of a tool from differing arguments,
	// FailedRounds how many failed rounds in a row, and UnknownThreshold how many
	// calls of a tool that was not offered are warned of; 0 for off.
	ErrorThreshold, FailedRounds, UnknownThreshold int
	// A finding of these that stands is blocked at Escalate times its threshold, and one
	// of NothingNew at CycleEscalate times; 0 for never.
	Escalate, CycleEscalate int

	// A sequence of at most MaxPeriod rounds that comes Repeats times in a row is a
	// cycle; 0 Repeats for off.
	MaxPeriod, Repeats int
	// A wide loop is at least WideRounds of the last WideWindow rounds with fewer
	// than WideDistinct percent distinct calls, all with the same results as before; a
	// WideWindow of 0 turns it off.
	WideWindow, WideRounds, WideDistinct int
}

// Rule are thresholds for the tools that a glob matches; 0 keeps the value of Params.
type Rule struct {
	Match                                         string
	WarnThreshold, BlockThreshold, PollMultiplier int
}
