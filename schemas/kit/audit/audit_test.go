package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

func TestTheAuditListsTheNewestActions(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	if all, err := List(t.Context(), js, 10); err != nil || len(all) != 0 {
		t.Fatalf("at first: %v, %v", all, err)
	}
	for i := range 5 {
		a := schemas.Audit{Actor: "ops@host", Action: schemas.AuditRelease, Target: fmt.Sprint(i), Via: "cli"}
		if err := Record(t.Context(), js, a); err != nil {
			t.Fatal(err)
		}
	}
	all, err := List(t.Context(), js, 3)
	if err != nil || len(all) != 3 || all[0].Target != "2" || all[2].Target != "4" || all[2].At.IsZero() {
		t.Errorf("listed %+v, %v", all, err)
	}
}

func TestTheActorIsAUserOfAHost(t *testing.T) {
	t.Parallel()
	if actor := Actor(); !strings.Contains(actor, "@") || strings.HasPrefix(actor, "@") {
		t.Errorf("actor %q", actor)
	}
}
