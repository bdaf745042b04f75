package money

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// The table is that of the dashboard's script, too.
func TestAmountsAreWrittenAsInTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/amounts.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []struct {
		USD  float64
		Text string
	}
	if err := json.Unmarshal(text, &table); err != nil || len(table) < 10 {
		t.Fatalf("%d amounts, %v", len(table), err)
	}
	for _, row := range table {
		if got := USD(row.USD); got != row.Text {
			t.Errorf("%v is written %s, want %s", row.USD, got, row.Text)
		}
	}
	for _, none := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := USD(none); got != Unknown {
			t.Errorf("%v is written %s", none, got)
		}
	}
}
