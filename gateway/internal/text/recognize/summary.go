package recognize

import (
	"bytes"
	"slices"
)

// summaryHead is the number of bytes of a message that are searched for summaryMarks.
const summaryHead = 600

// summaryMarks are phrases, in lower case, at the beginning of the messages with which agents
// replace a conversation that has become too long.
var summaryMarks = [...]string{
	"session is being continued from a previous conversation", "summary of the conversation", "summary of our conversation",
	"conversation summary", "conversation so far", "summary of the previous conversation", "summary of previous", "<summary>", "<state_snapshot>",
	"<conversation_summary", "<context_summary", "has been summarized", "was summarized", "has been compacted", "was compacted",
	"context compaction", "earlier messages were summarized", "earlier conversation was",
}

// summaryWords prefilter summaryMarks: each of those contains one of them.
var summaryWords = [...]string{"summar", "conversation", "compact", "<state_snapshot>"}

// IsSummary reports whether a user message looks like the summary that an agent wrote when
// it compacted its conversation. It must not be taken for a new message of a human.
func IsSummary(text []byte) bool {
	var room [summaryHead]byte
	head := appendLower(room[:0], text[:min(len(text), summaryHead)])
	return containsAny(head, summaryWords[:]) && containsAny(head, summaryMarks[:])
}

func containsAny(text []byte, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return bytes.Contains(text, []byte(word)) })
}
