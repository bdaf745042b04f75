package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What an operator puts into force is sealed, also its end. Who has no seed replaces nothing,
// and what is not sealed is shown as such.
func TestCommandsSealWhatTheyPutIntoForce(t *testing.T) {
	t.Parallel()
	dir := configured(t)
	bundle := filepath.Join(dir, "bundle.yaml")
	if err := os.WriteFile(bundle, []byte("bundle_version: 1\npolicies: [{id: a, spec: {prompt: {}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	operator := envFlags(t, filepath.Join(dir, "operator.env"))
	without := slices.Clone(operator)
	seed := slices.Index(without, "--seal-seed")
	without = slices.Delete(without, seed, seed+2)
	run := func(code int, want string, flags []string, args ...string) {
		t.Helper()
		got, out, errOut := command(t, append(args, flags...)...)
		if got != code || !strings.Contains(out+errOut, want) {
			t.Errorf("%v: code %d, %s%s; want code %d and %q", args, got, out, errOut, code, want)
		}
	}
	block := []string{"block", "--tenant", "acme", "--for", "1h"}
	run(0, "Pushed version 1-", operator, "policy", "push", bundle)
	run(0, "Blocked tenant acme", operator, block...)
	run(1, "--seal-seed", without, "policy", "push", bundle)
	run(1, "--seal-seed", without, block...)
	run(1, "--seal-seed", append(without, "--seal-seed", bundle), "policy", "push", bundle)

	attacker := dial(t, dir, "operator") // it may write, and has no seed
	for _, subject := range []string{"$KV.LOOP_POLICIES.bundle", "$KV.LOOP_OVERRIDES.block.tenant.acme", "$KV.LOOP_OVERRIDES.block.tenant.globex"} {
		if _, err := attacker.Request(subject, []byte(`{"action":"block","scope":"tenant","value":"globex","expires_at":"2999-01-01T00:00:00Z"}`), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	run(0, "id: a", operator, "policy", "show")
	run(0, "not used: it has no operator's seal", operator, "policy", "history")
	run(0, `"value":"acme"`, operator, "overrides", "--json")
	if _, out, _ := command(t, append([]string{"overrides"}, envFlags(t, filepath.Join(dir, "monitor.env"))...)...); strings.Contains(out, "globex") || !strings.Contains(out, "acme") {
		t.Errorf("the monitor sees %s", out)
	}
	run(0, "No longer blocked: tenant acme", operator, "unblock", "--tenant", "acme")
	run(0, "Nothing is blocked", operator, "overrides")
	for range 20 { // more than the history of a key
		run(0, "Blocked", operator, block...)
	}
	run(0, "acme", operator, "overrides")
	run(0, "Withdrawn", operator, "policy", "withdraw")
	run(1, "no bundle is pushed", operator, "policy", "show")
	run(0, "Pushed version 1-", operator, "policy", "rollback")
	run(0, "id: a", operator, "policy", "show")
}

// A backup of a server with another seed is restored with its policies and overrides in force:
// those that the earlier seed sealed, and no others.
func TestARestoreSealsWhatTheEarlierSeedSealed(t *testing.T) {
	t.Parallel()
	from, to := configured(t), configured(t)
	bundle, file := filepath.Join(from, "bundle.yaml"), filepath.Join(from, "backup.zip")
	if err := os.WriteFile(bundle, []byte("bundle_version: 1\npolicies: [{id: a, spec: {prompt: {}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(dir, want string, args ...string) {
		t.Helper()
		if code, out, errOut := command(t, append(args, envFlags(t, filepath.Join(dir, "operator.env"))...)...); code != 0 || !strings.Contains(out+errOut, want) {
			t.Errorf("%v: code %d, %s%s; want %q", args, code, out, errOut, want)
		}
	}
	run(from, "Pushed version 1-", "policy", "push", bundle)
	run(from, "Blocked tenant acme", "block", "--tenant", "acme", "--for", "1h")
	attacker := dial(t, from, "operator")
	for _, subject := range []string{"$KV.LOOP_POLICIES.bundle", "$KV.LOOP_OVERRIDES.block.tenant.globex"} {
		if _, err := attacker.Request(subject, []byte(`{"action":"block","scope":"tenant","value":"globex","expires_at":"2999-01-01T00:00:00Z"}`), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	run(from, "Wrote and verified", "backup", file)
	gateway := envFlags(t, filepath.Join(from, "gateway.env"))
	run(to, "Restored", "restore", file, "--force", "--seal-key", gateway[slices.Index(gateway, "--seal-key")+1])
	run(to, "id: a", "policy", "show")
	if _, out, _ := command(t, append([]string{"overrides"}, envFlags(t, filepath.Join(to, "monitor.env"))...)...); strings.Contains(out, "globex") || !strings.Contains(out, "acme") {
		t.Errorf("the monitor sees %s", out)
	}
}
