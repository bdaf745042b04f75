package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// detectorBlock is a block with a field that no policy has.
type detectorBlock struct {
	Enabled bool    `json:"enabled" default:"true" doc:"Off when false."`
	New     int     `json:"brand_new" check:"zero,min=0,max=9" default:"7" doc:"A field of a test."`
	Share   float64 `json:"share" check:"min=0,max=1" default:"0.5" doc:"A field of a test."`
	Words   Strings `json:"words" use:"gateway" doc:"A field of a test."`
}

// All that is known of a field stands beside it: what reads, checks, describes and sends
// blocks needs no word of it.
func TestAFieldIsDescribedInOnePlace(t *testing.T) {
	t.Parallel()
	builder := &schemaBuilder{defs: map[string]any{}}
	schema, err := json.Marshal(builder.object(reflect.ValueOf(new(detectorBlock)).Elem()))
	if want := `"brand_new":{"default":7,"description":"A field of a test.","maximum":9,"minimum":0,"type":"integer"}`; err != nil || !strings.Contains(string(schema), want) {
		t.Errorf("the schema is %s (%v)", schema, err)
	}
	var block detectorBlock
	r, err := read([]byte("share: 0.25\nbrand_new: 12\nwords: [a]\n"), "block", true, reflect.ValueOf(&block).Elem())
	if err != nil {
		if want := "line 2: brand_new: brand_new must be"; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("a value that is too high: %v", err)
		}
	} else if err := r.err(); err == nil || !strings.HasPrefix(err.Error(), "line 2: brand_new: ") {
		t.Errorf("a value that is too high: %v", err)
	}
	block = detectorBlock{Enabled: true, New: 3, Share: 0.5, Words: Strings{"a"}}
	sent, err := EncodeBlock(&block)
	if err != nil || string(sent) != `{"brand_new":3}` {
		t.Errorf("sent as %s (%v)", sent, err)
	}
	got, err := DecodeBlock[detectorBlock]([]byte(`{"share":0.75,"brand_new":0,"of_a_newer_version":true}`))
	if want := (detectorBlock{Enabled: true, New: 7, Share: 0.75}); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("received %+v (%v), want %+v", got, err, want)
	}
	if _, err := DecodeBlock[detectorBlock]([]byte(`{"share":2}`)); err == nil {
		t.Error("a value out of range is taken")
	}
	if off, err := DecodeBlock[detectorBlock](nil); off != nil || err != nil {
		t.Errorf("no block is %v (%v)", off, err)
	}
	if none, err := EncodeBlock[detectorBlock](nil); none != nil || err != nil {
		t.Errorf("no block is sent as %s (%v)", none, err)
	}
}

// Blocks are sent without what has its default, and arrive as they were.
func TestBlocksTravel(t *testing.T) {
	t.Parallel()
	for _, edit := range []func(*Tool){
		func(*Tool) {},
		func(t *Tool) { t.PollBackoff, t.Exempt, t.WarnThreshold = nil, Strings{"a"}, 4 },
		func(t *Tool) { t.Escalation = []Step{{At: 3, Action: Hint}}; t.ResultAware = false },
	} {
		want := DefaultTool()
		edit(want)
		sent, err := EncodeBlock(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeBlock[Tool](sent); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v (%v), want %+v", sent, got, err, want)
		}
	}
}
