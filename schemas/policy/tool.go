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
	Enabled        bool   `json:"enabled" doc:"Off when false."`
	WarnThreshold  int    `json:"warn_threshold" check:"min=0,max=10000" doc:"Warns from this many identical rounds on; 0 for the default."`
	BlockThreshold int    `json:"block_threshold" check:"min=0,max=10000" doc:"Blocks from this many identical rounds on; 0 for the default."`
	WarnAction     Action `json:"warn_action" check:"one=warn|hint|throttle|reject|break" doc:"What a warning does."`
	BlockAction    Action `json:"block_action" check:"one=warn|hint|throttle|reject|break" doc:"What a block does."`
	BlockAnswer    string `json:"block_answer,omitempty" check:"one=error|synthetic" doc:"What a rejected request gets instead of what the policy's reject says: its API's error (429), or an answer in the model's place that says what was repeated."`
	Escalation     []Step `json:"escalation,omitempty" doc:"Actions by identical rounds, instead of the two thresholds and their actions."`

	GlobalCircuitBreaker int `json:"global_circuit_breaker" check:"min=0,max=1000000" doc:"Breaks when there were more calls than this since the last human message; 0 for never."`
	MaxWarnings          int `json:"max_warnings" check:"min=0,max=10000" doc:"After this many warnings of one call it is blocked; 0 for the default."`
	OutcomeWarn          int `json:"outcome_warn" check:"min=0,max=10000" doc:"Identical results of a call that bring a warning before warn_threshold would; 0 for off."`
	OutcomeBlock         int `json:"outcome_block" check:"min=0,max=10000" doc:"Identical results of a call after which the next one is blocked; 0 for off."`
	HistorySize          int `json:"history_size" check:"min=1,max=1000" doc:"Rounds that are remembered."`
	TTLSeconds           int `json:"ttl_seconds" check:"min=1,max=2592000" doc:"How long an idle session is."`

	ResultAware      bool    `json:"result_aware" doc:"Takes a different result for progress, which starts the count anew."`
	VolatileDefaults bool    `json:"volatile_defaults" doc:"Ignores timestamps, UUIDs, request ids, durations, process ids and other values that a system makes up when results are compared."`
	VolatilePatterns Strings `json:"volatile_patterns,omitempty" check:"regex" doc:"More regular expressions (RE2) for parts of results that are ignored."`

	PollMultiplier int     `json:"poll_multiplier" check:"min=0,max=1000" doc:"Factor on the thresholds of polling calls; 0 for the default."`
	PollTools      Strings `json:"poll_tools,omitempty" check:"nonempty" doc:"Globs over tools whose every call is a poll."`
	PollLimitHours int     `json:"poll_limit_hours" check:"min=0,max=8760" doc:"Hours for which a poll may bring the same result if its occurrences are 20 seconds and more apart; 0 for any time."`
	PollBackoff    []int   `json:"poll_backoff_seconds" check:"min=0,max=86400" doc:"Pauses that are suggested before each further poll, in seconds; the last one goes on."`

	Exempt   Strings   `json:"exempt,omitempty" check:"nonempty" doc:"Globs over tools that are never counted."`
	ReadOnly Strings   `json:"read_only,omitempty" check:"nonempty" doc:"Globs over tools that change nothing."`
	PerTool  []PerTool `json:"per_tool,omitempty" doc:"Thresholds by tool; the first glob that matches counts."`

	ErrorPatterns    Strings `json:"error_patterns" check:"regex" doc:"Regular expressions (RE2) that know a failed result where the format does not mark it."`
	ErrorThreshold   int     `json:"error_threshold" check:"min=0,max=10000" doc:"Findings from this many times the same error on, whatever the arguments; 0 for off."`
	FailedRounds     int     `json:"failed_rounds" check:"min=0,max=10000" doc:"Findings from this many failed rounds in a row on; 0 for off."`
	EmptyThreshold   int     `json:"empty_threshold" check:"min=0,max=10000" doc:"Findings at every so many rounds in a row in which a tool had the same empty result, whatever the arguments; 0 for off."`
	UnknownThreshold int     `json:"unknown_tool_threshold" check:"min=0,max=10000" doc:"Findings from this many calls of a tool that was never offered on; 0 for off."`
	Escalate         int     `json:"escalate" check:"min=0,max=100" doc:"Hints about errors, and about actions in text of which it is not clear that they are any, lead to block_action at this many times their threshold if nothing new came; 0 for never."`
	ErrorAction      Action  `json:"error_action" check:"one=warn|hint|throttle|reject|break" doc:"What a finding about errors does."`
}

// PerTool are the thresholds of the tools that a glob matches. 0 keeps the detector's
// value.
type PerTool struct {
	Match          string `json:"match" check:"required" doc:"Glob over tool names: * and ? are wildcards."`
	WarnThreshold  int    `json:"warn_threshold,omitempty" check:"min=0,max=10000" doc:"Warns from this many identical rounds on."`
	BlockThreshold int    `json:"block_threshold,omitempty" check:"min=0,max=10000" doc:"Blocks from this many identical rounds on."`
	PollMultiplier int    `json:"poll_multiplier,omitempty" check:"min=0,max=1000" doc:"Factor on the thresholds of polling calls."`
}

// Cycle is the cycle detector: a sequence of tool rounds that repeats itself,
// and the wide loop, where many rounds are few distinct calls that change
// nothing.
type Cycle struct {
	Enabled             bool   `json:"enabled" doc:"Off when false."`
	MaxPeriod           int    `json:"max_period" check:"min=2,max=100" doc:"The longest period that is looked for."`
	Repeats             int    `json:"repeats" check:"min=2,max=1000" doc:"How often the period must have been seen."`
	Action              Action `json:"action" check:"one=warn|hint|throttle|reject|break" doc:"What is done about a cycle."`
	BlockAnswer         string `json:"block_answer,omitempty" check:"one=error|synthetic" doc:"What a rejected request gets instead of what the policy's reject says: its API's error (429), or an answer in the model's place that says what was repeated."`
	Escalation          []Step `json:"escalation,omitempty" doc:"Actions by repeats, instead of repeats and action."`
	NothingNew          int    `json:"nothing_new" check:"min=0,max=1000" doc:"Findings from this many rounds in a row on whose calls and results were all seen since the last human message, in any order; 0 for off."`
	Escalate            int    `json:"escalate" check:"min=0,max=100" doc:"A hint about rounds that bring nothing new leads to action at this many times nothing_new, if they repeat each other; 0 for never."`
	WideWindow          int    `json:"wide_window" check:"min=0,max=1000" doc:"Rounds that the wide loop is looked for in; 0 for off."`
	WideRounds          int    `json:"wide_rounds" check:"min=1,max=1000" doc:"Least number of rounds for the wide loop."`
	WideDistinctPercent int    `json:"wide_distinct_percent" check:"min=1,max=100" doc:"It is a loop when fewer of the calls than this share are distinct."`
	WideAction          Action `json:"wide_action" check:"one=warn|hint|throttle|reject|break" doc:"What is done about a wide loop, and about rounds that bring nothing new."`
}

// Steps returns the actions by the number of repeats.
func (c *Cycle) Steps() []Step {
	return ladder(c.Escalation, Step{At: c.Repeats, Action: c.Action})
}
