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
	Enabled         bool   `json:"enabled" doc:"The block is off unless this is true."`
	WindowSeconds   int    `json:"window_seconds" check:"required,min=1,max=2592000" doc:"Length of the window."`
	Threshold       int    `json:"threshold_identical_requests" check:"required,min=2,max=10000" doc:"Fires from this count on."`
	Action          Action `json:"action" check:"one=reject|throttle|warn" doc:"What is done; throttle waits 100 ms for each hit, at most 30 s."`
	Similarity      string `json:"similarity" check:"one=exact" doc:"How requests are compared."`
	Scope           string `json:"scope" check:"one=caller|all" doc:"Whether each caller is counted alone."`
	Window          string `json:"window" check:"one=refresh|sliding|fixed" doc:"When a hit is forgotten."`
	CooldownSeconds int    `json:"cooldown_seconds" check:"min=0,max=2592000" doc:"How long a reject lasts without another check."`
	Escalation      []Step `json:"escalation,omitempty" doc:"Actions by count, instead of threshold and action."`
}

// Steps returns the actions by count.
func (l *LoopDetection) Steps() []Step {
	return ladder(l.Escalation, Step{At: l.Threshold, Action: l.Action})
}

// Prompt is the prompt detector: it fires when the same newest messages of
// conversations that began alike came more than MaxHits times within the window.
type Prompt struct {
	Enabled         bool   `json:"enabled" doc:"Off when false."`
	MaxHits         int    `json:"max_hits" check:"min=0,max=10000" doc:"Hits that are let through; the next one fires. 0 turns the detector off."`
	WindowSeconds   int    `json:"window_seconds" check:"min=1,max=2592000" doc:"Length of the window."`
	CooldownSeconds int    `json:"cooldown_seconds" check:"min=0,max=2592000" doc:"How long a reject lasts without another check."`
	TailMessages    int    `json:"tail_messages" check:"min=1,max=100" doc:"How many of the newest messages are compared."`
	Action          Action `json:"action" check:"one=warn|hint|throttle|reject|break" doc:"What is done."`
	Fingerprint     string `json:"fingerprint" check:"one=strict|text" doc:"strict compares roles, text, images, tool calls and results; text compares text alone."`
	Scope           string `json:"scope" check:"one=named|caller|session" doc:"named counts sessions that name themselves apart, and together at twice the count; caller counts all of a caller's sessions together, session each alone."`
	Window          string `json:"window" check:"one=sliding|fixed|refresh" doc:"When a hit is forgotten."`
	Escalation      []Step `json:"escalation,omitempty" doc:"Actions by count, instead of max_hits and action."`

	Samples   int  `json:"samples" check:"min=1,max=1000" doc:"Requests of one prompt that are in flight together and count as one, at most; 1 counts each."`
	CountEach bool `json:"count_each,omitempty" doc:"Counts every request, as the source does: also those in flight together, first requests of sessions that name themselves together, and a caller's equal first requests that are less than half of its first requests."`

	HintRounds        int `json:"hint_rounds" check:"min=0,max=1000" doc:"Hints when a request's own history ends with this many identical rounds; 0 for never."`
	ComplaintHint     int `json:"complaint_hint" check:"min=0,max=1000" doc:"Hints when this many answers in a row, none with a call, brought the same complaint; 0 for never."`
	ComplaintStop     int `json:"complaint_stop" check:"min=0,max=1000" doc:"Stops the request at this many of them; 0 for never."`
	WarnHits          int `json:"warn_hits" check:"min=0,max=1000" doc:"Warns from this many conversations on that begin with the same prompt within warn_window_seconds; 0 for never."`
	WarnWindowSeconds int `json:"warn_window_seconds" check:"min=1,max=2592000" doc:"Length of the window of warn_hits."`

	UninspectedMax int `json:"uninspected_max" check:"min=0,max=5000" doc:"Bodies of a caller that can't be read which are let through in a minute: more are warned of, and from twice as many on throttled, as the detector uninspected; 0 for never."`
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
	Enabled     bool    `json:"enabled" doc:"Off when false."`
	Threshold   float64 `json:"threshold" check:"min=0,max=1" doc:"Similarity that must be exceeded (0 to 1)."`
	HistorySize int     `json:"history_size" check:"min=1,max=100" doc:"Exchanges that are remembered."`
	TTLSeconds  int     `json:"ttl_seconds" check:"min=1,max=2592000" doc:"How long each of them is."`
	Scope       string  `json:"scope" check:"one=session|caller|tenant" doc:"Whose exchanges are compared with each other."`
	MinMatches  int     `json:"min_matches" check:"min=1,max=100" doc:"How many must be similar."`
	MinWords    int     `json:"min_words" check:"min=0,max=1000" doc:"Shorter texts are not compared."`
	Action      Action  `json:"action" check:"one=warn|hint|throttle|reject|break" doc:"What is done; a hint comes with the second finding in a row, unless min_matches is 1."`
	RejectAfter int     `json:"reject_after" check:"min=0,max=10000" doc:"Rejects from this many findings in a row on; 0 for never."`
	Deferred    bool    `json:"deferred" doc:"Applies the result to the session's next request, so that it costs no latency."`
	StoreText   bool    `json:"store_text" doc:"Keeps texts beside their vectors."`
	BudgetMS    int     `json:"budget_ms" check:"min=1,max=60000" doc:"How long a request waits for the comparison, in milliseconds."`
	Escalation  []Step  `json:"escalation,omitempty" doc:"Actions by findings in a row, instead of action and reject_after."`
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
	Text     string `json:"text" check:"len=4096,nonempty" doc:"The hint's words."`
	Position string `json:"position" check:"one=head|result" doc:"head puts it in the system prompt; result behind the newest turn, which keeps the provider's prompt cache."`
}

// SessionRepair turns the repair of tool histories on.
type SessionRepair struct {
	Enabled bool `json:"enabled" doc:"Off when false."`
}
