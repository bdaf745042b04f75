package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	good  = "uk-0123456789abcdef"
	other = "uk-fedcba9876543210"
	wrong = "uk-wrong-wrong-wrong"
)

// file writes text to a file and returns its place.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + name
}

func TestKeysAreReadFromFilesAndTheEnvironment(t *testing.T) {
	hash := sha256.Sum256([]byte(other))
	t.Setenv("ACCESS_TEST_KEY", " "+good+"\n")
	for name, c := range map[string]struct {
		place string
		opens []string
		fault string
	}{
		"a variable":             {"env:ACCESS_TEST_KEY", []string{good}, ""},
		"a file of several":      {file(t, "# agents\n"+good+"\n\n  "+other+"\n"), []string{good, other}, ""},
		"a hash":                 {file(t, "sha256:"+hex.EncodeToString(hash[:])), []string{other}, ""},
		"a missing variable":     {"env:ACCESS_TEST_NONE", nil, "ACCESS_TEST_NONE is not set"},
		"a missing file":         {"file:/nowhere/at/all", nil, "/nowhere/at/all"},
		"a key itself":           {good, nil, "env:VARIABLE or file:PATH"},
		"a key behind a scheme":  {"key:" + good, nil, "env:VARIABLE or file:PATH"},
		"a key that is short":    {file(t, "short-secret"), nil, "at least 16"},
		"a hash that is none":    {file(t, "sha256:"+good), nil, "64 hex digits"},
		"nothing but a comment":  {file(t, "# none yet"), nil, "no key"},
		"a file without end":     {file(t, strings.Repeat("k", maxSecretFile+1)), nil, "more than"},
		"a variable of no name":  {"env:", nil, "env:VARIABLE"},
		"an empty file of space": {file(t, " \n\t"), nil, "empty"},
	} {
		keys, err := ReadKeys([]string{c.place})
		if (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: error %v, want %q", name, err, c.fault)
		}
		if err != nil && (strings.Contains(err.Error(), good) || strings.Contains(err.Error(), "short-secret")) {
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
		for _, key := range []string{good, other, wrong, ""} {
			wanted := false
			for _, o := range c.opens {
				wanted = wanted || o == key
			}
			if id, ok := keys.Holder(key); ok != wanted || ok && (id == "" || strings.Contains(id, key)) {
				t.Errorf("%s: key %q opens: %v (id %q), want %v", name, key, ok, id, wanted)
			}
		}
	}
}

func TestEveryFaultOfTheKeysIsReported(t *testing.T) {
	t.Parallel()
	_, err := ReadKeys([]string{"env:ACCESS_TEST_A", "env:ACCESS_TEST_B"})
	if err == nil || !strings.Contains(err.Error(), "ACCESS_TEST_A") || !strings.Contains(err.Error(), "ACCESS_TEST_B") {
		t.Errorf("error %v, want both variables", err)
	}
}

var noon = time.Date(2026, 5, 22, 12, 0, 0, 0, time.UTC)

// fail presents wrong keys until the limiter refuses to look.
func fail(t *testing.T, l *Limiter, remote string, now time.Time) (failures int) {
	t.Helper()
	for ; failures < 1000; failures++ {
		a := NewAttempt(remote, fmt.Sprint("guess ", failures), now)
		if l.Wait(a) > 0 {
			return failures
		}
		l.Failed(a)
	}
	t.Fatal("never limited")
	return failures
}

func TestWrongKeysOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	var l Limiter
	if n := fail(t, &l, "192.0.2.1:5000", noon); n != burst {
		t.Errorf("limited after %d failures, want %d", n, burst)
	}
	again := func(remote string, at time.Time) time.Duration { return l.Wait(NewAttempt(remote, good, at)) }
	if w := again("192.0.2.1:6000", noon); w != refill {
		t.Errorf("from another port: wait %s, want %s", w, refill)
	}
	if w := again("192.0.2.2:5000", noon); w != 0 {
		t.Errorf("another address waits %s", w)
	}
	if w := again("192.0.2.1:5000", noon.Add(refill)); w != 0 {
		t.Errorf("after the wait: still %s", w)
	}
}

func TestAnIPv6NetworkIsOneAddress(t *testing.T) {
	t.Parallel()
	var l Limiter
	fail(t, &l, "[2001:db8::1]:5000", noon)
	for remote, limited := range map[string]bool{
		"[2001:db8::ffff:1]:1": true, "[2001:db8:0:1::1]:1": false, "[::ffff:192.0.2.1]:1": false,
	} {
		if w := l.Wait(NewAttempt(remote, good, noon)); (w > 0) != limited {
			t.Errorf("%s: wait %s, limited: want %v", remote, w, limited)
		}
	}
}

func TestAKeyThatWasGoodStaysWelcomeBesideWrongOnes(t *testing.T) {
	t.Parallel()
	var l Limiter
	a := NewAttempt("192.0.2.1:5000", good, noon)
	l.Passed(a)
	fail(t, &l, "192.0.2.1:7000", noon)
	if w := l.Wait(a); w != 0 {
		t.Errorf("the good key waits %s", w)
	}
	l.Failed(a) // it was taken away
	if l.Wait(a) == 0 {
		t.Error("the key is still welcome after it failed")
	}
}

func TestMemoryOfFailuresAndSuccessesIsBounded(t *testing.T) {
	t.Parallel()
	var l Limiter
	for i := range maxAddresses + 5000 {
		remote := fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		l.Failed(NewAttempt(remote, wrong, noon))
		l.Passed(NewAttempt(remote, good, noon))
	}
	if len(l.debts) > maxAddresses || len(l.welcome) > maxWelcome {
		t.Errorf("%d addresses and %d keys are remembered", len(l.debts), len(l.welcome))
	}
}

func TestGuardAsksForAKey(t *testing.T) {
	t.Parallel()
	keys, err := ReadKeys([]string{file(t, good)})
	if err != nil {
		t.Fatal(err)
	}
	handler := NewGuard(keys).Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	get := func(name, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
		if name != "" {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	basic := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	basic.SetBasicAuth("anyone", good)
	for _, c := range []struct {
		name, value string
		status      int
	}{
		{"", "", 401},
		{Header, good, 204},
		{"Authorization", "Bearer " + good, 204},
		{"Authorization", basic.Header.Get("Authorization"), 204},
		{"Authorization", good, 401},
		{Header, wrong, 401},
		{Header, good + " ", 401},
	} {
		if w := get(c.name, c.value); w.Code != c.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Errorf("%s %q: status %d, want %d (challenge %q)", c.name, c.value, w.Code, c.status, w.Header().Get("WWW-Authenticate"))
		}
	}
	for range burst {
		get(Header, wrong)
	}
	if w := get(Header, wrong); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("after many wrong keys: status %d", w.Code)
	}
	if w := get(Header, good); w.Code != 204 {
		t.Errorf("the right key beside them: status %d", w.Code)
	}
}
