package policy

// The answers that a request can get that the tool or the cycle detector rejects, other
// than by the policy's reject.
const (
	AnswerError     = "error"     // the error of its API, with status 429
	AnswerSynthetic = "synthetic" // an answer in the model's place that describes the loop
)

// Tool is the tool detector: the same tool call with the same result, in one
// session. Counts include the present call.
type Tool struct {
	Enabled        bool   `json:"enabled" default:"true" doc:"Turns the block off if false."`
	WarnThreshold  int    `json:"warn_threshold" check:"zero,min=0,max=10000" default:"3" doc:"Number of identical rounds from which there are warnings; 0 for the default."`
	BlockThreshold int    `json:"block_threshold" check:"zero,min=0,max=10000" default:"5" doc:"Number of identical rounds from which calls are blocked; 0 for the default."`
	WarnAction     Action `json:"warn_action" check:"one=warn|hint|throttle|reject|break" default:"hint" doc:"Action of a warning."`
	BlockAction    Action `json:"block_action" check:"one=warn|hint|throttle|reject|break" default:"reject" doc:"Action of a block."`
	BlockAnswer    string `json:"block_answer,omitempty" use:"gateway" check:"one=error|synthetic" doc:"Answer to rejected requests, in place of the policy's reject: error (the API's 429), or synthetic (a message in place of the model's that says what was repeated)."`
	Escalation     []Step `json:"escalation,omitempty" doc:"Actions by number of identical rounds, in place of the two thresholds and their actions."`

	GlobalCircuitBreaker int `json:"global_circuit_breaker" check:"min=0,max=1000000" doc:"Number of calls since the last human message above which the session breaks; 0 for never."`
	MaxWarnings          int `json:"max_warnings" check:"zero,min=0,max=10000" default:"3" doc:"Number of warnings about one call after which it is blocked; 0 for the default."`
	OutcomeWarn          int `json:"outcome_warn" check:"min=0,max=10000" doc:"Number of identical results of a call that brings a warning before warn_threshold does; 0 for off."`
	OutcomeBlock         int `json:"outcome_block" check:"min=0,max=10000" doc:"Number of identical results of a call after which the next call is blocked; 0 for off."`
	HistorySize          int `json:"history_size" check:"min=1,max=1000" default:"30" doc:"Number of rounds to remember."`
	TTLSeconds           int `json:"ttl_seconds" check:"min=1,max=2592000" default:"1800" doc:"How long an idle session is remembered, in seconds."`

	ResultAware      bool    `json:"result_aware" default:"true" doc:"Treats a different result as progress, which restarts the count."`
	VolatileDefaults bool    `json:"volatile_defaults" use:"gateway" default:"true" doc:"Ignores timestamps, UUIDs, request ids, durations, process ids and other generated values when results are compared."`
	VolatilePatterns Strings `json:"volatile_patterns,omitempty" use:"gateway" check:"regex" doc:"Further regular expressions (RE2) for parts of results to ignore."`

	PollMultiplier int     `json:"poll_multiplier" check:"zero,min=0,max=1000" default:"3" doc:"Factor for the thresholds of polling calls; 0 for the default."`
	PollTools      Strings `json:"poll_tools,omitempty" check:"nonempty" doc:"Globs over tools whose every call is a poll."`
	PollLimitHours int     `json:"poll_limit_hours" check:"min=0,max=8760" default:"6" doc:"Hours for which polls at least 20 seconds apart may bring the same result; 0 for no limit."`
	PollBackoff    []int   `json:"poll_backoff_seconds" check:"min=0,max=86400" default:"0,5,10,30,60" doc:"Suggested pauses before each further poll, in seconds; the last one repeats."`

	Exempt   Strings   `json:"exempt,omitempty" check:"nonempty" doc:"Globs over tools that never count."`
	ReadOnly Strings   `json:"read_only,omitempty" check:"nonempty" doc:"Globs over tools that change nothing."`
	PerTool  []PerTool `json:"per_tool,omitempty" doc:"Thresholds by tool; the first matching glob applies."`

	ErrorPatterns    Strings `json:"error_patterns" use:"gateway" check:"regex" doc:"Regular expressions (RE2) that recognize a failed result if the wire format does not mark it."`
	ErrorThreshold   int     `json:"error_threshold" check:"min=0,max=10000" default:"5" doc:"Number of times the same error, whatever the arguments, from which there are findings; 0 for off."`
	FailedRounds     int     `json:"failed_rounds" check:"min=0,max=10000" default:"5" doc:"Number of failed rounds in a row from which there are findings; 0 for off."`
	EmptyThreshold   int     `json:"empty_threshold" check:"min=0,max=10000" default:"6" doc:"Number of rounds in a row with the same empty result of a tool, whatever the arguments, after which there is a finding, and again after as many; 0 for off."`
	UnknownThreshold int     `json:"unknown_tool_threshold" check:"min=0,max=10000" default:"3" doc:"Number of calls of a tool that the request does not offer from which there are findings; 0 for off."`
	Escalate         int     `json:"escalate" check:"min=0,max=100" default:"2" doc:"Multiple of a threshold at which block_action follows a hint about errors or about uncertain actions in text, if nothing new came; 0 for never."`
	ErrorAction      Action  `json:"error_action" check:"one=warn|hint|throttle|reject|break" default:"hint" doc:"Action for findings about errors."`
}

// PerTool are the thresholds of the tools that a glob matches. 0 keeps the detector's
// value.
type PerTool struct {
	Match          string `json:"match" check:"required" doc:"Glob over tool names: * and ? are wildcards."`
	WarnThreshold  int    `json:"warn_threshold,omitempty" check:"min=0,max=10000" doc:"Number of identical rounds from which there are warnings."`
	BlockThreshold int    `json:"block_threshold,omitempty" check:"min=0,max=10000" doc:"Number of identical rounds from which calls are blocked."`
	PollMultiplier int    `json:"poll_multiplier,omitempty" check:"min=0,max=1000" doc:"Factor for the thresholds of polling calls."`
}

// Cycle is the cycle detector: a sequence of tool rounds that repeats itself,
// and the wide loop, where many rounds are few distinct calls that change
// nothing.
type Cycle struct {
	Enabled             bool   `json:"enabled" default:"true" doc:"Turns the block off if false."`
	MaxPeriod           int    `json:"max_period" check:"min=2,max=100" default:"8" doc:"Longest period to look for, in rounds."`
	Repeats             int    `json:"repeats" check:"min=2,max=1000" default:"3" doc:"Number of repeats of the period from which there are findings."`
	Action              Action `json:"action" check:"one=warn|hint|throttle|reject|break" default:"reject" doc:"Action for a cycle."`
	BlockAnswer         string `json:"block_answer,omitempty" use:"gateway" check:"one=error|synthetic" doc:"Answer to rejected requests, in place of the policy's reject: error (the API's 429), or synthetic (a message in place of the model's that says what was repeated)."`
	Escalation          []Step `json:"escalation,omitempty" doc:"Actions by number of repeats, in place of repeats and action."`
	NothingNew          int    `json:"nothing_new" check:"min=0,max=1000" default:"4" doc:"Number of rounds in a row, in any order, whose calls and results were all seen since the last human message, from which there are findings; 0 for off."`
	Escalate            int    `json:"escalate" check:"min=0,max=100" default:"2" doc:"Multiple of nothing_new at which the action follows the hint, if the rounds repeat each other; 0 for never."`
	WideWindow          int    `json:"wide_window" check:"min=0,max=1000" default:"30" doc:"Number of newest rounds in which to look for a wide loop; 0 for off."`
	WideRounds          int    `json:"wide_rounds" check:"min=1,max=1000" default:"24" doc:"Fewest rounds of a wide loop."`
	WideDistinctPercent int    `json:"wide_distinct_percent" check:"min=1,max=100" default:"40" doc:"Percentage of distinct calls below which it is a loop."`
	WideAction          Action `json:"wide_action" check:"one=warn|hint|throttle|reject|break" default:"hint" doc:"Action for a wide loop and for rounds that bring nothing new."`
}

// Steps returns the actions by the number of repeats.
func (c *Cycle) Steps() []Step {
	return ladder(c.Escalation, Step{At: c.Repeats, Action: c.Action})
}
