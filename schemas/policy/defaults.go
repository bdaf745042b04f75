package policy

// This file has all defaults. The constructors name the products whose defaults they
// follow.

// defaultMaxCompletion is Fairvisor's reservation for an answer, in tokens.
const defaultMaxCompletion = 1000

// DefaultHint is the text of Agent Sentinel's intervention.
const DefaultHint = "You seem to be repeating similar requests. Please take a different approach or consider that " +
	"the previous attempts may have already addressed your question."

// DefaultErrorPatterns find failed tool results, for wire formats that do not mark them
// (RE2).
var DefaultErrorPatterns = []string{
	`(?i)^\s*(error|fatal|exception|failed|failure)\b`,
	`^\s*Traceback \(most recent call last\)`,
	`(?i)^\s*\{\s*"(error|err)"\s*:\s*["{]`,
	`(?i)\b(command not found|no such file or directory|permission denied)\s*$`,
	`(?i)\bexit (code|status):? [1-9]\d*\s*$`,
}

// DefaultLoopDetection is Fairvisor's block, with its defaults. Window and
// threshold have none.
func DefaultLoopDetection() *LoopDetection {
	return &LoopDetection{Action: Reject, Similarity: "exact", Scope: "caller", Window: WindowRefresh}
}

// DefaultPrompt has the defaults of the loop guard that LOOP_GUARD_…
// variables configure: more than 5 in 60 s, then 30 s of cooldown.
func DefaultPrompt() *Prompt {
	return &Prompt{
		Enabled: true, MaxHits: 5, WindowSeconds: 60, CooldownSeconds: 30, TailMessages: 3,
		Action: Reject, Fingerprint: "strict", Scope: ScopeNamed, Window: WindowSliding,
		Samples: 32, HintRounds: 3, ComplaintHint: 4, ComplaintStop: 8, WarnHits: 10, WarnWindowSeconds: 3600, UninspectedMax: 20,
	}
}

// DefaultTool has LibreFang's thresholds. Its circuit breaker (30) is off,
// since honest coding agents make hundreds of calls.
func DefaultTool() *Tool {
	return &Tool{
		Enabled: true, WarnThreshold: 3, BlockThreshold: 5, MaxWarnings: 3,
		WarnAction: Hint, BlockAction: Reject,
		HistorySize: 30, TTLSeconds: 30 * 60, ResultAware: true, VolatileDefaults: true,
		PollMultiplier: 3, PollLimitHours: 6, PollBackoff: []int{0, 5, 10, 30, 60},
		ErrorPatterns: append(Strings(nil), DefaultErrorPatterns...), ErrorThreshold: 5, EmptyThreshold: 6, FailedRounds: 5,
		UnknownThreshold: 3, Escalate: 2, ErrorAction: Hint,
	}
}

// DefaultCycle fires at the third repeat of any period up to 8, and when at
// least 24 of the last 30 rounds are less than 40 % distinct calls.
func DefaultCycle() *Cycle {
	return &Cycle{
		Enabled: true, MaxPeriod: 8, Repeats: 3, Action: Reject,
		NothingNew: 4, Escalate: 2, WideWindow: 30, WideRounds: 24, WideDistinctPercent: 40, WideAction: Hint,
	}
}

// DefaultSemantic has Agent Sentinel's threshold, history and TTL; it asks
// for two matches where the source takes one.
func DefaultSemantic() *Semantic {
	return &Semantic{
		Enabled: true, Threshold: 0.95, HistorySize: 5, TTLSeconds: 3600, Scope: "session", MinMatches: 2,
		MinWords: 4, Action: Hint, BudgetMS: 50,
	}
}

// DefaultSpec returns a policy that enforces, fails open and has no detector.
func DefaultSpec() Spec {
	return Spec{Mode: "enforce", FailureMode: "open", Hint: DefaultHintText()}
}

// DefaultHintText returns the hint of a policy that does not set one.
func DefaultHintText() HintText { return HintText{Text: DefaultHint, Position: "head"} }

// The methods below put a block's defaults in place before it is read.

func (s *Spec) setDefaults()           { *s = DefaultSpec() }
func (h *HintText) setDefaults()       { *h = DefaultHintText() }
func (l *LoopDetection) setDefaults()  { *l = *DefaultLoopDetection() }
func (p *Prompt) setDefaults()         { *p = *DefaultPrompt() }
func (t *Tool) setDefaults()           { *t = *DefaultTool() }
func (c *Cycle) setDefaults()          { *c = *DefaultCycle() }
func (s *Semantic) setDefaults()       { *s = *DefaultSemantic() }
func (s *SessionRepair) setDefaults()  { s.Enabled = true }
func (c *CircuitBreaker) setDefaults() { c.Action = Reject }
func (j *JWT) setDefaults()            { j.LeewaySeconds = 60 }

func (t *TokenBucket) setDefaults() {
	*t = TokenBucket{CostSource: "fixed", FixedCost: 1, DefaultCost: 1}
}

func (t *TokenBucketLLM) setDefaults() { t.TokenSource.setDefaults() }
func (t *TokenSource) setDefaults()    { t.Estimator = "simple_word" }

func (c *CostBased) setDefaults() {
	*c = CostBased{CostKey: "fixed", FixedCost: 1, DefaultCost: 1}
}
