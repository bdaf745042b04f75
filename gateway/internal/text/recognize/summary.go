package recognize

import (
	"bytes"
	"slices"
)

// summaryHead is how much of a message is searched for the words of a summary.
const summaryHead = 600

// summaryMarks are words that agents put at the head of the message with which
// they replace a conversation that has become too long, in lower case.
var summaryMarks = [...]string{
	"session is being continued from a previous conversation", "summary of the conversation", "summary of our conversation",
	"conversation summary", "conversation so far", "summary of the previous conversation", "summary of previous", "<summary>", "<state_snapshot>",
	"<conversation_summary", "<context_summary", "has been summarized", "was summarized", "has been compacted", "was compacted",
	"context compaction", "earlier messages were summarized", "earlier conversation was",
}

// summaryWords are parts of words: each mark has one of them.
var summaryWords = [...]string{"summar", "conversation", "compact", "<state_snapshot>"}

// IsSummary reports whether a user message looks like the summary that an agent
// wrote of its own conversation when it compacted it. No human said that, so it
// must not be taken for a new human message.
func IsSummary(text []byte) bool {
	var room [summaryHead]byte
	head := appendLower(room[:0], text[:min(len(text), summaryHead)])
	return containsAny(head, summaryWords[:]) && containsAny(head, summaryMarks[:])
}

func containsAny(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}
