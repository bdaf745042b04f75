package policy

// The window kinds of the request and prompt detectors.
const (
	WindowRefresh = "refresh" // each hit starts the window anew
	WindowSliding = "sliding" // a hit counts for the window after its own time
	WindowFixed   = "fixed"   // the window begins with the first hit
)

// LoopDetection is the request detector, Fairvisor's block: it fires when an
// identical request has been seen Threshold times within the window.
type LoopDetection struct {
	Enabled         bool   `json:"enabled" doc:"Turns the detector on."`
	WindowSeconds   int    `json:"window_seconds" check:"required,min=1,max=2592000" doc:"Length of the window, in seconds."`
	Threshold       int    `json:"threshold_identical_requests" check:"required,min=2,max=10000" doc:"Count from which the detector fires."`
	Action          Action `json:"action" check:"one=reject|throttle|warn" default:"reject" doc:"Action. throttle waits 100 ms for each hit, at most 30 s."`
	Similarity      string `json:"similarity" check:"one=exact" default:"exact" doc:"How requests are compared."`
	Scope           string `json:"scope" check:"one=caller|all" default:"caller" doc:"caller counts each caller's requests separately; all counts them together."`
	Window          string `json:"window" check:"one=refresh|sliding|fixed" default:"refresh" doc:"refresh restarts the window with each hit; sliding counts each hit for the window after it; fixed starts the window with the first hit."`
	CooldownSeconds int    `json:"cooldown_seconds" check:"min=0,max=2592000" doc:"How long a reject stands without another check, in seconds."`
	Escalation      []Step `json:"escalation,omitempty" doc:"Actions by count, in place of the threshold and action."`
}

// Steps returns the actions by count.
func (l *LoopDetection) Steps() []Step {
	return ladder(l.Escalation, Step{At: l.Threshold, Action: l.Action})
}

// Prompt is the prompt detector: it fires when the same newest messages of
// conversations that began alike came more than MaxHits times within the window.
type Prompt struct {
	Enabled         bool   `json:"enabled" default:"true" doc:"Turns the block off if false."`
	MaxHits         int    `json:"max_hits" check:"min=0,max=10000" default:"5" doc:"Number of hits to let through; the next one fires. 0 turns the detector off."`
	WindowSeconds   int    `json:"window_seconds" check:"min=1,max=2592000" default:"60" doc:"Length of the window, in seconds."`
	CooldownSeconds int    `json:"cooldown_seconds" check:"min=0,max=2592000" default:"30" doc:"How long a reject stands without another check, in seconds."`
	TailMessages    int    `json:"tail_messages" check:"min=1,max=100" default:"3" doc:"Number of newest messages to compare."`
	Action          Action `json:"action" check:"one=warn|hint|throttle|reject|break" default:"reject" doc:"Action."`
	Fingerprint     string `json:"fingerprint" check:"one=strict|text" default:"strict" doc:"strict compares roles, text, images, tool calls and results; text compares text alone."`
	Scope           string `json:"scope" check:"one=named|caller|session" default:"named" doc:"named counts named sessions separately, and together at twice the count; caller counts all sessions of a caller together; session counts each session separately."`
	Window          string `json:"window" check:"one=sliding|fixed|refresh" default:"sliding" doc:"refresh restarts the window with each hit; sliding counts each hit for the window after it; fixed starts the window with the first hit."`
	Escalation      []Step `json:"escalation,omitempty" doc:"Actions by count, in place of max_hits and action."`

	Samples   int  `json:"samples" check:"min=1,max=1000" default:"32" doc:"Largest number of requests with one prompt, in flight together, that count as one; 1 counts each."`
	CountEach bool `json:"count_each,omitempty" doc:"Counts every request, including those in flight together, first requests of named sessions, and a first request that is only a small part of what its caller sends."`

	HintRounds        int `json:"hint_rounds" check:"min=0,max=1000" default:"3" doc:"Number of identical rounds at the end of a request's own history that brings a hint; 0 for never."`
	ComplaintHint     int `json:"complaint_hint" check:"min=0,max=1000" default:"4" doc:"Number of answers in a row, none with a call, with the same complaint that brings a hint; 0 for never."`
	ComplaintStop     int `json:"complaint_stop" check:"min=0,max=1000" default:"8" doc:"Number of such answers that stops the request; 0 for never."`
	WarnHits          int `json:"warn_hits" check:"min=0,max=1000" default:"10" doc:"Number of conversations that begin with the same prompt within warn_window_seconds from which each brings a warning; 0 for never."`
	WarnWindowSeconds int `json:"warn_window_seconds" check:"min=1,max=2592000" default:"3600" doc:"Window of warn_hits, in seconds."`

	UninspectedMax int `json:"uninspected_max" check:"min=0,max=5000" default:"20" doc:"Number of unreadable bodies of a caller to let through in a minute. Further ones bring warnings, and from twice as many on throttling, by the detector uninspected; 0 for never."`
}

// The scopes of the prompt detector.
const (
	ScopeNamed   = "named"
	ScopeCaller  = "caller"
	ScopeSession = "session"
)

// Steps returns the actions by count.
func (p *Prompt) Steps() []Step {
	return ladder(p.Escalation, Step{At: p.MaxHits + 1, Action: p.Action})
}

// TogetherSteps returns the actions by the count of several sessions together: those of
// Steps, at twice the allowed hits.
func (p *Prompt) TogetherSteps() []Step {
	own := p.Steps()
	out := make([]Step, len(own))
	for i, s := range own {
		out[i] = Step{At: 2*(s.At-1) + 1, Action: s.Action}
	}
	return out
}

// UninspectedSteps returns the actions by the count of bodies that can't be read.
func (p *Prompt) UninspectedSteps() []Step {
	return []Step{{At: p.UninspectedMax + 1, Action: Warn}, {At: 2*p.UninspectedMax + 1, Action: Throttle}}
}

// Active reports whether the detector can fire at all.
func (p *Prompt) Active() bool {
	return p != nil && p.Enabled && (p.MaxHits > 0 || len(p.Escalation) > 0)
}

// Semantic is the semantic detector: it fires when the newest exchange is
// more similar than Threshold to at least MinMatches of the scope's last
// HistorySize ones. Similarity is 1 − cosine distance / 2.
type Semantic struct {
	Enabled     bool    `json:"enabled" default:"true" doc:"Turns the block off if false."`
	Threshold   float64 `json:"threshold" check:"min=0,max=1" default:"0.95" doc:"Similarity (0 to 1) that exchanges must exceed."`
	HistorySize int     `json:"history_size" check:"min=1,max=100" default:"5" doc:"Number of exchanges to remember."`
	TTLSeconds  int     `json:"ttl_seconds" check:"min=1,max=2592000" default:"3600" doc:"How long each exchange is remembered, in seconds."`
	Scope       string  `json:"scope" check:"one=session|caller|tenant" default:"session" doc:"Exchanges to compare with: those of the same session, caller or tenant."`
	MinMatches  int     `json:"min_matches" check:"min=1,max=100" default:"2" doc:"Number of remembered exchanges that must be similar."`
	MinWords    int     `json:"min_words" check:"min=0,max=1000" default:"4" doc:"Fewest words of a text that is compared."`
	Action      Action  `json:"action" check:"one=warn|hint|throttle|reject|break" default:"hint" doc:"Action. A hint comes with the second finding in a row, unless min_matches is 1."`
	RejectAfter int     `json:"reject_after" check:"min=0,max=10000" doc:"Number of findings in a row from which requests are rejected; 0 for never."`
	Deferred    bool    `json:"deferred" doc:"Applies the result to the session's next request, which adds no latency."`
	StoreText   bool    `json:"store_text" doc:"Stores texts beside their vectors."`
	BudgetMS    int     `json:"budget_ms" check:"min=1,max=60000" default:"50" doc:"Longest time that a request waits for the comparison, in milliseconds."`
	Escalation  []Step  `json:"escalation,omitempty" doc:"Actions by findings in a row, in place of action and reject_after."`
}

// Steps returns the actions by the number of findings in a row. A hint comes with the
// second, since a single one is often chance, unless one match is enough for a finding.
func (s *Semantic) Steps() []Step {
	if len(s.Escalation) > 0 {
		return s.Escalation
	}
	first := Step{At: 1, Action: s.Action}
	if s.Action == Hint && s.MinMatches > 1 {
		first.At = 2
	}
	if s.RejectAfter == 0 || s.Action.Strength() >= Reject.Strength() {
		return []Step{first}
	}
	if s.RejectAfter <= first.At {
		return []Step{{At: s.RejectAfter, Action: Reject}}
	}
	return []Step{first, {At: s.RejectAfter, Action: Reject}}
}

// HintText is the text of a hint and its place in the request.
type HintText struct {
	Text     string `json:"text" check:"len=4096,nonempty" doc:"Text of the hint."`
	Position string `json:"position" check:"one=head|result" default:"head" doc:"head adds it to the system prompt; result adds it after the newest turn, which keeps the provider's prompt cache."`
}

// SessionRepair turns the repair of tool histories on.
type SessionRepair struct {
	Enabled bool `json:"enabled" default:"true" doc:"Turns the block off if false."`
}
