package incident

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/event"
)

func TestMadeUp(t *testing.T) {
	f := found("tool", time.Minute)
	opened := New(&f, "l").Add(&f)
	var stored Record
	if err := stored.Parse(opened.Append(nil)); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(stored.Event(event.Detected, time.Now()))
	if err != nil || !strings.Contains(string(body), `"made_up":"tool"`) {
		t.Errorf("published is %s, %v", body, err)
	}
}
