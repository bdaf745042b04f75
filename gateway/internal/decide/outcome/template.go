package outcome

import (
	"bytes"
	"slices"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
	"github.com/unloop/unloop/schemas/checkpb"
)

// Template is the body of a refusal, cut where the two numbers are that change
// from one refusal of a standing block to the next: its count and the seconds
// that are left. The format's own encoder wrote it.
type Template struct {
	of     *checkpb.Finding
	waits  bool // the refusal names a time
	status int
	pieces [][]byte
	// counts says for each gap between pieces whether the count goes there.
	counts []bool
}

// Numbers that stand for the two in a template. A refusal whose texts have one of
// them gets no template.
const (
	templateCount = 4_123_456_789
	templateWait  = 3_987_654
)

// NewTemplate returns the template of the refusals for a finding. Where the numbers
// can't be told from the text, it fits no finding.
func NewTemplate(p provider.Provider, look Look, f *checkpb.Finding, wait, status int) *Template {
	numbered := proto.CloneOf(f)
	numbered.HitCount = templateCount
	count, left := strconv.AppendUint(nil, templateCount, 10), strconv.AppendInt(nil, templateWait, 10)
	t := &Template{of: f, waits: wait > 0, status: status}
	for body := p.Refusal(look.refusal(numbered, min(wait, 1)*templateWait, status)); ; {
		atCount, atLeft := bytes.Index(body, count), bytes.Index(body, left)
		if atCount < 0 && atLeft < 0 {
			t.pieces = append(t.pieces, body)
			break
		}
		isCount := atLeft < 0 || atCount >= 0 && atCount < atLeft
		at, number := atLeft, left
		if isCount {
			at, number = atCount, count
		}
		t.pieces, t.counts = append(t.pieces, body[:at]), append(t.counts, isCount)
		body = body[at+len(number):]
	}
	if !slices.Equal(t.render(nil, f, wait), p.Refusal(look.refusal(f, wait, status))) {
		return &Template{status: status}
	}
	return t
}

// fits reports whether the refusal for a finding differs from the template in nothing but
// the two numbers.
func (t *Template) fits(f *checkpb.Finding, wait int) bool {
	return t != nil && t.of != nil && f.GetBlockedMs() > 0 && t.waits == (wait > 0) && f.GetAction() == t.of.GetAction() &&
		f.GetLoopId() == t.of.GetLoopId() && f.GetPolicy() == t.of.GetPolicy() && f.GetDetector() == t.of.GetDetector() &&
		f.GetMessage() == t.of.GetMessage() && bytes.Equal(f.GetFingerprint(), t.of.GetFingerprint())
}

// render appends the refusal's body for a finding that fits.
func (t *Template) render(body []byte, f *checkpb.Finding, wait int) []byte {
	for i, isCount := range t.counts {
		body = append(body, t.pieces[i]...)
		if isCount {
			body = strconv.AppendUint(body, uint64(f.GetHitCount()), 10)
		} else {
			body = strconv.AppendInt(body, int64(wait), 10)
		}
	}
	return append(body, t.pieces[len(t.pieces)-1]...)
}

// RepeatTemplate is the template of the refusals of a request. It is made when the request
// repeats for the first time, and again when the status changes.
type RepeatTemplate struct{ newest atomic.Pointer[Template] }

// get returns the template for a finding, the seconds to wait and a status.
func (t *RepeatTemplate) get(p provider.Provider, look Look, f *checkpb.Finding, wait, status int) *Template {
	newest := t.newest.Load()
	if newest == nil || newest.status != status || newest.waits != (wait > 0) {
		newest = NewTemplate(p, look, f, wait, status)
		t.newest.Store(newest)
	}
	return newest
}
