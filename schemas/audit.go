package schemas

import "time"

// Audit is a message in StreamAudit, as JSON: what an operator did, and when. Tools of
// operators write it after the action; they name the actor, and whoever may publish on the
// subject can do so.
type Audit struct {
	At    time.Time `json:"at"`
	Actor string    `json:"actor"`
	// Action is one of the constants below.
	Action AuditAction `json:"action"`
	// Target is the object of the action, such as a loop's id.
	Target string `json:"target"`
	// Detail says more, such as the end of a block and its reason.
	Detail string `json:"detail,omitempty"`
	// Via is the tool: cli or dashboard.
	Via string `json:"via"`
}

// AuditAction names what an operator did.
type AuditAction string

// The actions.
const (
	AuditRelease        AuditAction = "release"
	AuditBlock          AuditAction = "block"
	AuditUnblock        AuditAction = "unblock"
	AuditExempt         AuditAction = "exempt"
	AuditUnexempt       AuditAction = "unexempt"
	AuditSilence        AuditAction = "silence"
	AuditUnsilence      AuditAction = "unsilence"
	AuditEnableEndpoint AuditAction = "enable-endpoint"
	AuditResend         AuditAction = "resend"
	AuditPolicy         AuditAction = "policy"
	AuditRestore        AuditAction = "restore"
)

// Subject returns the subject of an audit: loop.audit.ACTION.
func (a *Audit) Subject() string { return SubjectAudit + "." + Token(string(a.Action)) }
