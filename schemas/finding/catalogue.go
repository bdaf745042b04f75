package finding

// The detectors.
const (
	Request        = "request"
	Prompt         = "prompt"
	Tool           = "tool"
	Cycle          = "cycle"
	Semantic       = "semantic"
	Uninspected    = "uninspected"
	Users          = "users"
	CircuitBreaker = "circuit_breaker"
)

// The rules of the detector "prompt", besides the count within its window.
const (
	IdenticalRounds  = "identical-rounds"
	Complaints       = "complaints"
	Slow             = "slow"
	ModelsInTurn     = "models-in-turn"
	SessionsTogether = "sessions-together"
)

// The rules of the detectors "tool" and "cycle".
const (
	Repeat     = "repeat"      // the same call, with the same result
	Outcome    = "outcome"     // the same result of a call, by the thresholds for results
	Parallel   = "parallel"    // the same call several times in one round
	Breaker    = "breaker"     // more calls than a policy allows
	SameError  = "same-error"  // one error whatever the arguments
	AllFailed  = "all-failed"  // rounds in a row that all failed
	NotOffered = "not-offered" // a tool that does not exist
	SameEmpty  = "same-empty"  // one empty result whatever the arguments
	PingPong   = "ping-pong"   // two rounds by turns
	Round      = "cycle"       // three rounds or more over and over
	Wide       = "wide"        // many rounds, few distinct calls, nothing changed
	NothingNew = "nothing-new" // rounds whose calls and results were all seen before
)

// Takes says which action of its policy a finding takes.
type Takes uint8

// The actions of a policy.
const (
	ByDetector Takes = iota // the detector's own, by the count
	ByErrors                // error_action, and block_action where a hint changes nothing
	ByWide                  // wide_action
	ByNothing               // wide_action, and the cycle detector's action where a hint changes nothing
)

// Sentences that several kinds use.
const (
	useResults = "The results of these calls are in this conversation already, after each call: go on from the newest of them, " +
		"take a different approach, or say what stands in the way."
	useAnswer = "What was asked has been answered already: go on from that answer, take a different approach, or say what stands in the way."
	findCause = "Find out what causes it before trying again."
)

// catalogue has the kinds by detector; the first kind of each has no rule.
var catalogue = []Kind{
	{
		Detector: Request, Compares: "whole requests", Title: "identical requests", Text: "the same request {n} times{window}",
		Hint: "The same request came {n} times{window}.", Advice: useAnswer,
	},
	{
		Detector: Prompt, Compares: "prompts", Title: "the same prompt", Text: "the same prompt {n} times{window}",
		Hint: "The same prompt came {n} times{window}.", Advice: useAnswer,
	},
	{
		Detector: Prompt, Rule: IdenticalRounds, Compares: "rounds at the end of the conversation",
		Title: "identical rounds", Text: "{n} identical rounds at the end of the conversation", Lasting: true,
		Hint:   "The last {n} rounds of this conversation were identical: you said the same and were answered the same each time, since {n} rounds ago.",
		Advice: useAnswer,
	},
	{
		Detector: Prompt, Rule: Complaints, Compares: "what users say to answers without calls",
		Title: "the same complaint about each answer", Text: "the same complaint about {n} answers in a row", Lasting: true,
		Hint: "Your last {n} answers brought the same complaint, and none did what it asks for. Do that now, such as the call that is missing, " +
			"or say what stands in the way.",
		Advice: "Do what the complaint asks for, such as the call that is missing, or say what stands in the way.",
	},
	{
		Detector: Prompt, Rule: Slow, Compares: "the beginnings of conversations, over a long window",
		Title: "many conversations that begin alike", Text: "{n} conversations that began with the same prompt{window}",
		Hint: "{n} conversations began with the same prompt{window}.", Advice: useAnswer,
	},
	{
		Detector: Prompt, Rule: ModelsInTurn, Compares: "prompts, and the models that get them",
		Title: "the same prompt to two models by turns", Text: "the same prompt to two models by turns, {n} times{window}",
		Hint: "The same prompt goes to two models by turns, and came back to each.", Advice: useAnswer,
	},
	{
		Detector: Prompt, Rule: SessionsTogether, Compares: "prompts of one caller's sessions",
		Title: "the same prompt in several sessions", Text: "the same prompt from this caller's sessions {n} times{window}",
		Hint: "The same prompt came {n} times{window}.", Advice: useAnswer,
	},
	{
		Detector: Tool, Compares: "calls of tools, and their results",
		Title: "the same tool call{tools}", Text: "the same tool call{tools} with the same result {n} times", Lasting: true,
		Hint: "The {tool} was called {n} times{passed} with the same arguments{between}. {advice}", Advice: useResults,
	},
	{
		Detector: Tool, Rule: Outcome, Compares: "results of the same call, by the thresholds for results",
		Title: "the same result{tools}", Text: "the same result of the same tool call{tools} {n} times", Lasting: true,
		Hint: "The {tool} has returned the identical result {n} times. {advice}", Advice: useResults,
	},
	{
		Detector: Tool, Rule: Parallel, Compares: "calls of one turn",
		Title: "the same call several times in one turn{tools}", Text: "the same tool call{tools} {n} times in one turn", Lasting: true,
		Hint: "One turn calls the {tool} {n} times with the same arguments. One call is enough.", Advice: useResults,
	},
	{
		Detector: Tool, Rule: Breaker, Compares: "the number of calls since the last human message",
		Title: "too many tool calls", Text: "a session whose tool calls went round in circles", Lasting: true,
		Hint: "This session was stopped because its tool calls went round in circles. {advice}", Advice: useResults,
	},
	{
		Detector: Tool, Rule: SameError, Compares: "errors of one tool, whatever its arguments",
		Title: "the same error{tools}", Text: "the same error of a tool{tools} {n} times", Lasting: true,
		Hint: "The {tool} has failed {n} times with the same error, whatever its arguments were. {advice}", Advice: useResults,
		Next: findCause, Takes: ByErrors,
	},
	{
		Detector: Tool, Rule: AllFailed, Compares: "whether the calls of a round failed",
		Title: "every tool call fails", Text: "{n} rounds of tool calls in a row that all failed", Lasting: true,
		Hint: "The last {n} rounds of tool calls all failed. {advice}", Advice: useResults, Next: findCause, Takes: ByErrors,
	},
	{
		Detector: Tool, Rule: NotOffered, Compares: "names of tools with those that the request offers",
		Title: "a tool that does not exist{tools}", Text: "{n} calls of a tool that does not exist{tools}", Lasting: true,
		Hint: "The {tool} was called {n} times but does not exist here. {advice}", Advice: useResults,
		Next: "Use only the tools that are offered.", Takes: ByErrors,
	},
	{
		Detector: Tool, Rule: SameEmpty, Compares: "empty results of one tool, whatever its arguments",
		Title: "empty results{tools}", Text: "the same empty result of a tool{tools} in {n} rounds", Lasting: true,
		Hint: "The {tool} has returned the same empty result in {n} rounds, whatever its arguments were. {advice}", Advice: useResults,
		Takes: ByErrors,
	},
	{
		Detector: Cycle, Compares: "rounds of calls, and their results",
		Title: "a cycle of tool calls{tools}", Text: "the same cycle of tool calls{tools} {n} times, with the same results", Lasting: true,
		Hint: "The tool calls repeat a cycle of {period} rounds{tools}, {n} times now{passed}, with the same results. {advice}", Advice: useResults,
	},
	{
		Detector: Cycle, Rule: PingPong, Compares: "two rounds of calls that alternate",
		Title: "two rounds of tool calls by turns{tools}", Text: "the same cycle of tool calls{tools} {n} times, with the same results", Lasting: true,
		Hint: "The tool calls repeat a cycle of {period} rounds{tools}, {n} times now{passed}, with the same results. {advice}", Advice: useResults,
	},
	{
		Detector: Cycle, Rule: Wide, Compares: "the calls of many rounds, in any order",
		Title: "the same few tool calls again and again", Text: "the same few tool calls over and over in the last {n} rounds", Lasting: true,
		Hint: "In the last {n} rounds the same few tool calls came back again and again, and none brought anything new. {advice}", Advice: useResults,
		Takes: ByWide,
	},
	{
		Detector: Cycle, Rule: NothingNew, Compares: "rounds with all rounds before",
		Title: "rounds that bring nothing new", Text: "{n} rounds of tool calls in a row that brought nothing new", Lasting: true,
		Hint: "The last {n} rounds brought nothing new: all that they brought had come before. {advice}", Advice: useResults,
		Takes: ByNothing,
	},
	{
		Detector: Semantic, Compares: "the meaning of messages",
		Title: "the same in other words", Text: "{n} messages in a row that say again, in other words, what was said before", Lasting: true,
		Hint: "The last {n} messages say again, in other words, what was said before.", Advice: useAnswer,
	},
	{
		Detector: Uninspected, Compares: "the number of bodies that can't be read", Title: "request bodies that can't be read",
		Text: "{n} request bodies that could not be read{window}", Hint: "{n} request bodies of this caller could not be read{window}.", Advice: useAnswer,
	},
	{
		Detector: Users, Compares: "end users of the same prompt", Title: "the same prompt with changing end users",
		Text: "{n} changes of the same prompt's end user{window}", Advice: useAnswer,
		Hint: "The same prompt changed its end user {n} times under one key{window}.",
	},
	{
		Detector: CircuitBreaker, Compares: "what is spent within a minute", Title: "spending over its rate",
		Text: "more spent within a minute than the circuit breaker allows",
	},
}
