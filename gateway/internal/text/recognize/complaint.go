package recognize

import (
	"bytes"
	"regexp"
	"slices"
)

// maxComplaint is the number of bytes of a message that are searched for a complaint.
const maxComplaint = 2 << 10

// Words of complaints: what an answer is, what it should have had, and what is wrong.
const (
	anAnswer = `(?:reply|response|output|answer|message|turn|completion|generation|snippet)`
	aForm    = `(?:tool|tools|tool[ -]?calls?|functions?|commands?|actions?|code|json|xml|yaml|markdown|format|formatting|syntax|block|backticks|schema)`
	aFault   = `(?:no|not|none|nothing|never|without|invalid|missing|wrong|incorrect|incorrectly|malformed|incomplete|empty|error|failed|fails|lacks?|unable|cannot|can't|couldn't|didn't|doesn't|isn't|wasn't|hasn't|unparsable)`
)

// complaints match the ways in which harnesses tell a model that its answer has no action
// or one that they can't parse.
var complaints = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:your|the|last|previous) (?:\w+ ){0,2}` + anAnswer + `\b[^.!?\n]{0,60}\b` + aFault + `\b`),
	regexp.MustCompile(`\bno (?:\w+ ){0,2}` + aForm + `\b`),
	regexp.MustCompile(`\b(?:invalid|wrong|bad|incorrect|malformed|missing|unknown|unparsable)(?: or \w+)? '?(?:\w+ )?(?:` + aForm + `|` + anAnswer + `)\b`),
	regexp.MustCompile(`\b(?:format|formatting|parsing|parse|syntax|tool call) error\b|\berror (?:in|while) (?:\w+ ){0,2}(?:parsing|format|tool call)`),
	regexp.MustCompile(`\b(?:exactly|at least|only) one (?:\w+ ){0,2}` + aForm + `\b`),
	regexp.MustCompile(`\b(?:did not|didn't|without|failed to|forgot to|must) (?:us|call|mak|provid|include|including|invok|contain|return|conform|follow)\w* (?:\w+ ){0,3}` + aForm + `\b`),
	regexp.MustCompile(`\b(?:could not|couldn't|cannot|can't|unable to|failed to) (?:be )?(?:pars|extract|decod|read)`),
	regexp.MustCompile(`\b(?:is|was|are|were)(?:n't| not) (?:a )?(?:valid|formatted|correctly|properly|in the (?:right|correct|required|expected))\b`),
	regexp.MustCompile(`\b(?:couldn't|could not|can't|cannot|didn't|did not) (?:find|see|detect|recognize) (?:an? |any )?(?:\w+ ){0,2}` + aForm + `\b`),
	regexp.MustCompile(`\brespond with (?:one of |exactly one of )?the (?:provided|available|following|given) (?:tools|functions|commands|actions)\b`),
	regexp.MustCompile(`\bvalidation errors?\b|\bfield required\b|\b(?:not|n't) match the (?:\w+ ){0,3}schema\b|\bmissing (?:required )?(?:property|field|key|argument)s?\b`),
	regexp.MustCompile(`\bnever ask for human\b|\bdo not ask for (?:human|user) (?:input|help|response)\b`),
	regexp.MustCompile(`(?:werkzeug|funktions)aufruf|appel (?:d'outil|de fonction)|llamada a (?:una |la )?(?:herramienta|función)|chamada de (?:ferramenta|função)|工具调用|函数调用|ツール呼び出し|関数呼び出し`),
	regexp.MustCompile(`\b(?:proceed|continue)\b[^?]{0,240}\b(?:call|use|using|calling) (?:the |one of the )?\S* ?(?:tools?|function|command)\b`),
	regexp.MustCompile("\\b(?:call|invoke|use) (?:the )?[`\"']?(?:finish|submit|done|complete|attempt_completion|final_answer|exit)\\b"),
}

// IsComplaint reports whether a message objects to the form of the previous answer: that
// it has no call, no command or no valid JSON. A message that only asks for more is not a
// complaint.
func IsComplaint(text []byte) bool {
	text = bytes.Join(bytes.Fields(bytes.ToLower(text[:min(len(text), maxComplaint)])), []byte(" "))
	text = bytes.ReplaceAll(text, []byte("\u2019"), []byte("'"))
	return slices.ContainsFunc(complaints, func(form *regexp.Regexp) bool { return form.Match(text) })
}
