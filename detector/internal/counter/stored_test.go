package counter

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// earlierRecords are records as versions wrote them that stored times as they are and
// marks in full. They stay as they are.
var earlierRecords = []string{
	`{"count":0,"first":0,"last":1795323061874,"parts":[{"mark":"38c9c394adafe7b219cd99c294c21fd6","state":{"count":8,"first":1795323061738,"last":1795323061874,` +
		`"hits":[1795323061739,1795323061740,1795323061741,1795323061741,1795323061874,1795323061874],"blocked_until":1795323091741,` +
		`"incident":"6aae674a7aef552314b17e6222ccd22a","rounds":8}}],"slow":[1795323061738,1795323061874],` +
		`"turns":["38c9c394adafe7b219cd99c294c21fd6","38c9c394adafe7b219cd99c294c21fd6","38c9c394adafe7b219cd99c294c21fd6","38c9c394adafe7b219cd99c294c21fd6"]}`,
	`{"count":3,"first":1795228752850,"last":1795228754102,"hits":[1795228752850,1795228754102],"forgiven":1,"excused":true,"aborted":2,"key":"ab","asked":["cd"]}`,
}

func TestRecordsOfEarlierVersionsAreRead(t *testing.T) {
	t.Parallel()
	parts, one := State{}, State{}
	for i, s := range []*State{&parts, &one} {
		if err := s.Parse([]byte(earlierRecords[i])); err != nil {
			t.Fatal(err)
		}
	}
	mark := "38c9c394adafe7b219cd99c294c21fd6"
	want := State{
		Last: 1795323061874, Slow: []int64{1795323061738, 1795323061874}, Turns: slices.Repeat([]string{mark}, 4),
		Parts: []Part{{mark, State{
			Count: 8, First: 1795323061738, Last: 1795323061874, BlockedUntil: 1795323091741, Incident: "6aae674a7aef552314b17e6222ccd22a", Rounds: 8,
			Hits: []int64{1795323061739, 1795323061740, 1795323061741, 1795323061741, 1795323061874, 1795323061874},
		}}},
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want = State{
		Count: 3, First: 1795228752850, Last: 1795228754102, Hits: []int64{1795228752850, 1795228754102}, Forgiven: 1, Excused: true, Aborted: 2,
		Key: "ab", Asked: []string{"cd"},
	}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStatesAreStoredInFewBytes(t *testing.T) {
	t.Parallel()
	for _, record := range earlierRecords {
		var s, again State
		if err := s.Parse([]byte(record)); err != nil {
			t.Fatal(err)
		}
		body := s.Append(nil)
		if err := again.Parse(body); err != nil || cmp.Diff(s, again) != "" {
			t.Errorf("%s: %v\n%s", body, err, cmp.Diff(s, again))
		}
		if len(body) > len(record)*9/10 {
			t.Errorf("%d bytes instead of %d: %s", len(body), len(record), body)
		}
	}
	gone := State{Last: 5, Turns: []string{"of a part that is gone"}}
	var again State
	if err := again.Parse(gone.Append(nil)); err != nil || cmp.Diff(gone, again) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(gone, again))
	}
}
