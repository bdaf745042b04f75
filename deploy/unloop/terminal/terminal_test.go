package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestScreenFollowsTheEnvironment(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for name, c := range map[string]struct {
		environ map[string]string
		want    Screen
	}{
		"a file is no terminal":       {nil, Screen{}},
		"COLUMNS":                     {map[string]string{"COLUMNS": "40"}, Screen{Width: 40}},
		"COLUMNS that is no number":   {map[string]string{"COLUMNS": "wide"}, Screen{}},
		"colours by force":            {map[string]string{"CLICOLOR_FORCE": "1"}, Screen{Colour: true}},
		"colours by force, but 0":     {map[string]string{"CLICOLOR_FORCE": "0"}, Screen{}},
		"NO_COLOR outranks the force": {map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, Screen{}},
		"an empty NO_COLOR is none":   {map[string]string{"CLICOLOR_FORCE": "1", "NO_COLOR": ""}, Screen{Colour: true}},
	} {
		if got := Detect(file, func(name string) string { return c.environ[name] }); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := Detect(&bytes.Buffer{}, func(string) string { return "" }); got != (Screen{}) {
		t.Errorf("a buffer is %+v", got)
	}
}

// people is a table with names that are wide, long, empty and hostile.
func people() *Table {
	t := NewTable(Column{Name: "ID", MinWidth: 4}, Column{Name: "NAME", Rank: 1, MinWidth: 5}, Column{Name: "N", Right: true}, Column{Name: "NOTE", Rank: 2})
	t.Row("0123456789", "a rather long name", "7", "")
	t.Row("9876543210", Cell{"日本語", Red}, "12345", "")
	return t
}

func printed(t *testing.T, s Screen) string {
	t.Helper()
	var out strings.Builder
	if err := people().Print(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTableHasItsFullWidthWhereNobodyWatches(t *testing.T) {
	t.Parallel()
	want := "ID          NAME                    N  NOTE\n" +
		"0123456789  a rather long name      7  -\n" +
		"9876543210  日本語              12345  -\n"
	if got := printed(t, Screen{}); got != want {
		t.Errorf("printed\n%swant\n%s", got, want)
	}
}

func TestTableFitsTheScreen(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		80: "ID          NAME                    N\n0123456789  a rather long name      7\n9876543210  日本語              12345\n",
		30: "ID          NAME             N\n0123456789  a rather l…      7\n9876543210  日本語       12345\n",
		17: "ID              N\n0123456789      7\n9876543210  12345\n",
		12: "ID         N\n0123…      7\n9876…  12345\n",
		5:  "ID        N\n012…      7\n987…  12345\n", // the least
	} {
		got := printed(t, Screen{Width: width})
		if got != want {
			t.Errorf("at %d columns\n%swant\n%s", width, got, want)
		}
	}
}

func TestColoursChangeNoWidth(t *testing.T) {
	t.Parallel()
	plain, coloured := printed(t, Screen{}), printed(t, Screen{Colour: true})
	if !strings.Contains(coloured, "\x1b[31m日本語\x1b[0m") || !strings.Contains(coloured, "\x1b[1mNAME\x1b[0m") {
		t.Errorf("printed %q", coloured)
	}
	if got := strings.NewReplacer("\x1b[31m", "", "\x1b[1m", "", "\x1b[0m", "").Replace(coloured); got != plain {
		t.Errorf("without its colours\n%swant\n%s", got, plain)
	}
}

func TestNamesCannotMoveTheCursor(t *testing.T) {
	t.Parallel()
	if got, want := Clean("a\x1b[2Jb\nc\u202ed\u009b"), "a\ufffd[2Jb c\ufffdd\ufffd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestOnlyLiveScreensAreCleared(t *testing.T) {
	t.Parallel()
	if (Screen{}).Clear() != "" || (Screen{Live: true}).Clear() == "" {
		t.Error("a file is cleared, or a terminal is not")
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "now", 0: "now", 999 * time.Millisecond: "now", time.Second: "1 s", 59 * time.Second: "59 s", time.Minute: "1 min",
		90 * time.Minute: "1 h", 47 * time.Hour: "47 h", 48 * time.Hour: "2 d", 1000 * time.Hour: "41 d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%s) is %q, want %q", d, got, want)
		}
	}
	now := time.Date(2026, 5, 22, 14, 30, 0, 0, time.FixedZone("", 2*60*60))
	if Ago(now, now) != "now" || Ago(now.Add(-3*time.Minute), now) != "3 min ago" {
		t.Errorf("%q, %q", Ago(now, now), Ago(now.Add(-3*time.Minute), now))
	}
	for want, at := range map[string]time.Time{
		"14:29:59":         now.Add(-time.Second).UTC(),
		"21 May 22:30":     now.Add(-16 * time.Hour),
		"2025-05-22 14:30": now.AddDate(-1, 0, 0),
	} {
		if got := Moment(at, now); got != want {
			t.Errorf("Moment(%s) is %q, want %q", at, got, want)
		}
	}
}
