package detection

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// recorded returns the folders with real sessions that exist: those that
// UNLOOP_TEST_SESSIONS lists, else those beside the repository.
func recorded() []string {
	folders := []string{"../../../shared/sessions", "../../../shared/sessions2"}
	if env := os.Getenv("UNLOOP_TEST_SESSIONS"); env != "" {
		folders = filepath.SplitList(env)
	}
	return slices.DeleteFunc(folders, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "stuck.jsonl"))
		return err != nil
	})
}

// sessionsOf reads the stuck and the honest sessions of a folder.
func sessionsOf(t *testing.T, folder string) []Session {
	t.Helper()
	var out []Session
	for _, name := range []string{"stuck.jsonl", "honest.jsonl"} {
		sessions, err := Read(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, sessions...)
	}
	return out
}

// The figures that are demanded, in percent.
const (
	mostHinted   = 2  // of the honest sessions
	leastInTime  = 95 // of the stuck ones, in each column
	leastPressed = 80 // of the stuck ones that are long enough
)

// leastStopped is how many of the stuck sessions are stopped, in percent: many end
// before they have gone round often enough.
var leastStopped = map[string]int{"tools": 85, "text": 60}

// mostEmbedded is how many of the exchanges of honest sessions may be embedded, in percent.
// An earlier exchange that is embedded for a later one counts again. Fewer than fewExchanges
// are no share.
const mostEmbedded, fewExchanges = 9, 100

// checkEmbeddings holds the results of comparisons against those of a worker that embeds
// every exchange, and the number of embeddings against what is demanded.
func checkEmbeddings(t *testing.T, results []Result) {
	t.Helper()
	sums := map[string]Embeddings{}
	for i := range results {
		label := results[i].Session.Label
		sums[label] = sums[label].plus(results[i].Embeddings)
	}
	for label, sum := range sums {
		t.Logf("embedded in %s sessions: %d for %d exchanges (%.1f %%)", label, sum.Embedded, sum.Exchanges, percent(sum.Embedded, sum.Exchanges))
		if sum.Differing > 0 {
			t.Errorf("%d comparisons in %s sessions have other results than if every exchange is embedded", sum.Differing, label)
		}
		if label == "honest" && sum.Exchanges >= fewExchanges && 100*sum.Embedded > mostEmbedded*sum.Exchanges {
			t.Errorf("%d embeddings for %d exchanges of honest sessions, want at most %d %%", sum.Embedded, sum.Exchanges, mostEmbedded)
		}
	}
}

// check holds the figures of one way against what is demanded.
func check(t *testing.T, all []Summary) {
	t.Helper()
	honest, hinted := 0, 0
	for _, s := range all {
		t.Log(s.String())
		honest, hinted = honest+s.Honest, hinted+s.Hinted
		if s.HonestStops > 0 {
			t.Errorf("%s: %d honest sessions are stopped", s.ActsBy, s.HonestStops)
		}
		if 100*s.InTime < leastInTime*s.Stuck {
			t.Errorf("%s: %d of %d stuck sessions are found in time, want %d %%", s.ActsBy, s.InTime, s.Stuck, leastInTime)
		}
		if least := leastStopped[s.ActsBy]; 100*s.StuckStopped < least*s.Stuck {
			t.Errorf("%s: %d of %d stuck sessions are stopped, want %d %%", s.ActsBy, s.StuckStopped, s.Stuck, least)
		}
		if 100*s.Pressed < leastPressed*s.Long {
			t.Errorf("%s: %d of %d stuck sessions are stopped or hinted twice, want %d %%", s.ActsBy, s.Pressed, s.Long, leastPressed)
		}
	}
	if 100*hinted > mostHinted*honest {
		t.Errorf("%d of %d honest sessions are hinted, want at most %d %%", hinted, honest, mostHinted)
	}
}

// measure replays the sessions of folders in every way, and checks the figures.
// With -v, it prints what was found: in all sessions, or with
// UNLOOP_TEST_SESSIONS_SHOW=odd in honest ones with a hint and stuck ones without.
func measure(t *testing.T, folders ...string) {
	t.Helper()
	var sessions []Session
	for _, folder := range folders {
		sessions = append(sessions, sessionsOf(t, folder)...)
	}
	for _, way := range Ways() {
		t.Run(way.Name, func(t *testing.T) {
			t.Parallel()
			results, err := Replay(t.Context(), sessions, way)
			if err != nil {
				t.Fatal(err)
			}
			show(t, results)
			check(t, Summarise(results))
			checkEmbeddings(t, results)
		})
	}
}

func show(t *testing.T, results []Result) {
	t.Helper()
	if !testing.Verbose() {
		return
	}
	odd := os.Getenv("UNLOOP_TEST_SESSIONS_SHOW") == "odd"
	for i := range results {
		r := &results[i]
		expected := r.Session.Stuck() && r.InTime() && r.Pressed() || !r.Session.Stuck() && !r.Hinted()
		if !odd || !expected {
			t.Log(r.String())
		}
	}
}

func TestRecordedSessions(t *testing.T) {
	t.Parallel()
	folders := recorded()
	if len(folders) == 0 {
		t.Skip("NO RECORDED SESSIONS: neither UNLOOP_TEST_SESSIONS nor ../shared/sessions has stuck.jsonl and honest.jsonl; only our own sessions were measured")
	}
	measure(t, folders...)
}

func TestOwnSessions(t *testing.T) {
	t.Parallel()
	measure(t, "testdata")
}
