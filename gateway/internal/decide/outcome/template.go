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

// template is the body of a refusal, as the format encodes it, cut at the two numbers that
// differ between refusals of the same block: the count and the seconds that are left.
type template struct {
	of     *checkpb.Finding
	waits  bool // the refusal has a wait
	status int
	pieces [][]byte
	// counts says for each gap between pieces whether it is for the count.
	counts []bool
}

// Placeholders for the two numbers. A refusal that has one of them in its texts gets no
// template.
const (
	templateCount = 4_123_456_789
	templateWait  = 3_987_654
)

// newTemplate returns the template of the refusals for a finding. It fits no finding if the
// numbers can't be distinguished from the text.
func newTemplate(p provider.Provider, look Look, f *checkpb.Finding, wait, status int) *template {
	numbered := proto.CloneOf(f)
	numbered.HitCount = templateCount
	count, left := strconv.AppendUint(nil, templateCount, 10), strconv.AppendInt(nil, templateWait, 10)
	t := &template{of: f, waits: wait > 0, status: status}
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
		return &template{status: status}
	}
	return t
}

// fits reports whether the refusal for a finding differs only in the two numbers.
func (t *template) fits(f *checkpb.Finding, wait int) bool {
	return t != nil && t.of != nil && f.GetBlockedMs() > 0 && t.waits == (wait > 0) && f.GetAction() == t.of.GetAction() &&
		f.GetLoopId() == t.of.GetLoopId() && f.GetPolicy() == t.of.GetPolicy() && f.GetDetector() == t.of.GetDetector() &&
		f.GetMessage() == t.of.GetMessage() && bytes.Equal(f.GetFingerprint(), t.of.GetFingerprint())
}

// render appends the refusal's body for a finding that fits.
func (t *template) render(body []byte, f *checkpb.Finding, wait int) []byte {
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

// Template caches the body of the refusals of a repeated request. The zero Template is
// empty. It is safe for concurrent use.
type Template struct{ newest atomic.Pointer[template] }

// get returns the template for a finding, the seconds to wait and a status.
func (t *Template) get(p provider.Provider, look Look, f *checkpb.Finding, wait, status int) *template {
	newest := t.newest.Load()
	if newest == nil || newest.status != status || newest.waits != (wait > 0) {
		newest = newTemplate(p, look, f, wait, status)
		t.newest.Store(newest)
	}
	return newest
}
