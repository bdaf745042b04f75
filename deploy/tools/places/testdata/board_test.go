package board

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/unloop/unloop/schemas/event"
)

func TestMadeUp(t *testing.T) {
	body, err := json.Marshal(loopOf(&event.Event{Data: event.Data{MadeUp: "tool"}}))
	if err != nil || !strings.Contains(string(body), `"made_up":"tool"`) {
		t.Errorf("the API has %s, %v", body, err)
	}
}
