// Package toolloop decides whether an agent's tool calls go round in circles.
//
// It is the pure core of the detectors "tool" and "cycle": [Step] takes the state of a
// session, the history of a request, the parameters and a time, and returns the new
// state and the detections. It knows no policies, no protobuf, no NATS, no HTTP and no
// clock, and it never sees arguments or results, only digests.
//
// # What counts
//
// A round is what the model asked for in one turn: one call, or several in
// parallel. A call repeats itself when it is made again with the same arguments
// and brings the same result; a different result is progress and restarts the
// count. An unknown result counts as the same.
//
// Between two occurrences of a call other things may have been done: an edit between two runs
// of the tests. Where another call in between was new to the session, succeeded and is neither
// a poll nor marked as read-only, or brought another result than the last time, the occurrences
// do not make a streak. They are then compared with workMultiplier times the thresholds and
// bring warnings only: a build that stays green while one file after the other is edited is no
// loop, though one that fails alike after six edits deserves a hint. Repeats without such work
// in between are a loop.
//
// A new human message ends every streak. So does one that was sent before, if it
// follows a finished answer and does not come quickly: agents are woken by the same
// words.
//
// # Time
//
// Polls are counted by their pace, see rate.go: slow ones wait for something, and are stopped
// after hours. The time of a round is that of the request which shows it as its newest. Rounds
// that come with a history all at once have no known time, and then nothing is counted as
// quick.
//
// # Hints that lead on
//
// Findings about errors, and rounds that bring nothing new, begin as warnings. They block if
// they reach a multiple of their thresholds and bring nothing new meanwhile: the same text
// again, or the same short error with no work in between.
//
// # Messages that grow
//
// Some clients put all steps of a run into one message. If earlier requests had the
// beginning of a round, the round is split there: see grown.go. Calls that come together
// for the first time are parallel and stay one round.
//
// # Each round once
//
// A client sends its history again with every request, whole, cut at the front,
// or rewritten; so a request's rounds must be matched with the remembered ones.
// See align.go for how, and for what is guaranteed.
package toolloop
