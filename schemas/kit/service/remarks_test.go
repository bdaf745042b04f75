package service

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// remarking is a service that is ready and has a remark.
type remarking struct{ ready Readiness }

func (*remarking) Run(context.Context) error { return nil }
func (r *remarking) Readiness() *Readiness   { return &r.ready }
func (*remarking) Remarks() []string         { return []string{"a record is not used"} }

// A remark is told, and the service goes on being ready.
func TestReadyzHasRemarks(t *testing.T) {
	t.Parallel()
	s := &remarking{}
	s.ready.Set(nil)
	w := httptest.NewRecorder()
	readyz([]Named{{Name: "gateway", Service: s}})(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	if got := w.Body.String(); w.Code != http.StatusOK || got != "gateway: ready\ngateway: remark: a record is not used\n" {
		t.Errorf("status %d, %q", w.Code, got)
	}
}
