package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A command's own flags come before those of groups, such as NATS.
func TestOwnFlagsComeFirst(t *testing.T) {
	t.Parallel()
	model, err := Model()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, leaf := range model.Leaves(true) {
		var own, nats string
		for _, flags := range leaf.AllFlags(true) {
			for _, f := range flags {
				switch {
				case f.Name == "nats":
					nats = f.Name
				case f.Group == nil && f.Name != "help" && f.Name != "version":
					own = f.Name
				}
			}
		}
		if own == "" || nats == "" {
			continue
		}
		seen++
		path := strings.Fields(strings.TrimPrefix(leaf.FullPath(), "unloop "))
		_, out, _ := command(t, append(path, "--help")...)
		if at, group := strings.Index(out, "--"+own), strings.Index(out, "\nNATS:\n"); at < 0 || group < 0 || at > group {
			t.Errorf("%s: --%s at %d, the flags of NATS at %d", leaf.FullPath(), own, at, group)
		}
	}
	if seen < 10 {
		t.Errorf("only %d commands have flags of both kinds", seen)
	}
}

// Processes that run beside one another on one machine listen on different ports.
func TestServerAloneHasAnAdminPortOfItsOwn(t *testing.T) {
	t.Parallel()
	model, err := Model()
	if err != nil {
		t.Fatal(err)
	}
	admin := func(path string) string {
		i := slices.IndexFunc(model.Leaves(true), func(n *kong.Node) bool { return n.FullPath() == path })
		for _, flags := range model.Leaves(true)[i].AllFlags(true) {
			for _, f := range flags {
				if f.Name == "admin" {
					return f.Default
				}
			}
		}
		return ""
	}
	if up, alone := admin("unloop up"), admin("unloop nats serve"); up != usualAdmin || alone != "127.0.0.1:8082" {
		t.Errorf("up listens on %q, nats serve on %q", up, alone)
	}
}

func TestNegativeDurationIsExplained(t *testing.T) {
	t.Parallel()
	_, _, errOut := command(t, "block", "--session", "s", "--for", "-1h")
	if !strings.Contains(errOut, `--for: expected a value but got "-1h"`) || !strings.Contains(errOut, "write --for 1h\n") {
		t.Errorf("printed %q", errOut)
	}
	if _, _, errOut := command(t, "block", "--session", "-s", "--for", "1h"); !strings.Contains(errOut, "write --session=-s") {
		t.Errorf("printed %q", errOut)
	}
	if _, _, errOut := command(t, "block", "--session", "s", "--for=-1h"); !strings.Contains(errOut, "must be at least 1s") {
		t.Errorf("printed %q", errOut)
	}
}
