package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/doctor"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
	"github.com/unloop/unloop/schemas/policy"
	"github.com/unloop/unloop/schemas/status"
)

type policyCmd struct {
	Check    policyCheckCmd    `cmd:"" help:"Check a bundle and list every fault with its line."`
	Init     policyInitCmd     `cmd:"" help:"Print a bundle to start from."`
	Default  policyDefaultCmd  `cmd:"" help:"Print the default policy, with comments."`
	Schema   policySchemaCmd   `cmd:"" help:"Print the JSON Schema of bundles, for editors."`
	Prices   policyPricesCmd   `cmd:"" help:"Print the built-in price table and its date."`
	Explain  policyExplainCmd  `cmd:"" help:"Explain what would happen to a request, and why."`
	Tune     policyTuneCmd     `cmd:"" help:"Tune the thresholds of a bundle on labelled sessions."`
	Push     policyPushCmd     `cmd:"" help:"Put a bundle into force at every gateway without a --policies file."`
	Show     policyShowCmd     `cmd:"" help:"Print the pushed bundle."`
	History  policyHistoryCmd  `cmd:"" help:"List the bundles that were pushed."`
	Rollback policyRollbackCmd `cmd:"" help:"Push an earlier bundle again."`
	Withdraw policyWithdrawCmd `cmd:"" help:"Withdraw the pushed bundle, so that the default policy applies."`
}

// policyStore is the bucket of policies.
type policyStore struct {
	js    jetstream.JetStream
	by    *seal.Signer
	trust seal.Trust
}

// revision is a stored bundle.
type revision struct {
	jetstream.KeyValueEntry
	seal.Record
	// fault says why gateways do not use the bundle; nil if they do.
	fault error
}

// holds reports whether the revision has a valid bundle; one that withdraws the bundle has none.
func (r revision) holds() bool { return r.fault == nil && len(r.Content) > 0 }

// withPolicies calls use with the bucket of policies on a connection of its own.
func (c client) withPolicies(ctx context.Context, use func(policyStore) error) error {
	by, err := c.signer()
	if err != nil {
		return err
	}
	trust, err := c.trust()
	if err != nil {
		return err
	}
	return c.with(ctx, func(js jetstream.JetStream) error {
		return use(policyStore{js, by, trust})
	})
}

// pusher has the flags of commands that push a bundle.
type pusher struct {
	client
	formatted
	actor
}

// push stores a bundle, records who pushed it, and prints its version.
func (c pusher) push(ctx context.Context, std streams, s policyStore, data []byte, version string) error {
	if most := s.js.Conn().MaxPayload(); int64(len(data)) > most {
		return fmt.Errorf("push %s: the bundle has %d bytes, and the NATS server takes messages of %d (max_payload)", version, len(data), most)
	}
	revision, err := operator.Store(ctx, s.js, s.by, schemas.BucketPolicies, schemas.KeyBundle, data, 0)
	if err != nil {
		return fmt.Errorf("push %s: %w", version, err)
	}
	c.record(ctx, s.js, std, schemas.AuditPolicy, version, fmt.Sprintf("pushed as revision %d", revision))
	for _, g := range followFiles(ctx, s.js) {
		fmt.Fprintf(std.err, "unloop: %s follows its --policies file and does not use pushed bundles: change the file, or start it without --policies\n", gatewayName(g))
	}
	return c.show(std, pushedBundle{Revision: revision, Version: version, Pushed: time.Now(), Bytes: len(data)}, func(out *printer) {
		out.printf("Pushed version %s as revision %d.\n", version, revision)
	})
}

// followFiles returns the running gateways that use a file of policies.
func followFiles(ctx context.Context, js jetstream.JetStream) []status.Status {
	return slices.DeleteFunc(doctor.Parts(operator.Parts(ctx, js.Conn()), "gateway"), func(g status.Status) bool {
		return g.Bundle == nil || g.Bundle.Source != status.SourceFile
	})
}

// gatewayName names a gateway to its operator.
func gatewayName(g status.Status) string { return "the gateway at " + cmp.Or(g.Listen, g.Host) }

// pushed returns the stored revisions, oldest first.
func (s policyStore) pushed(ctx context.Context) (all []revision, err error) {
	entries, err := natskit.StoredEntries(ctx, s.js, schemas.BucketPolicies, schemas.KeyBundle)
	if err != nil {
		return nil, explain(fmt.Errorf("read the history: %w", err))
	}
	for _, e := range entries {
		r := revision{KeyValueEntry: e}
		if e.Operation() == jetstream.KeyValuePut {
			r.Record, r.fault = s.trust.Open(e.Bucket(), e.Key(), e.Value())
		} else if s.trust.Checks() {
			r.fault = seal.ErrUnsealed
		}
		all = append(all, r)
	}
	return all, nil
}

// versionOf returns the version of a stored bundle, or "unreadable".
func versionOf(data []byte) string {
	bundle, err := policy.ParseTolerant(data)
	if err != nil {
		return "unreadable"
	}
	version, err := bundle.Version()
	if err != nil {
		return "unreadable"
	}
	return version
}

type policyPushCmd struct {
	pusher
	File string `arg:"" type:"existingfile" help:"Bundle, YAML or JSON."`
}

// Run checks a bundle and stores it.
func (c *policyPushCmd) Run(ctx context.Context, std streams) error {
	bundle, data, complaints, err := readBundle(c.File)
	printComplaints(&printer{w: std.err}, complaints)
	if err != nil {
		return err
	}
	return c.withPolicies(ctx, func(store policyStore) error { return c.push(ctx, std, store, data, bundle.version) })
}

type policyShowCmd struct {
	client
	formatted
	Revision uint64 `arg:"" optional:"" help:"Revision to print instead of the newest."`
}

// errNotPushed is the error if there is no pushed bundle.
var errNotPushed = errors.New("no bundle is pushed: gateways use their --policies file or the default policy")

// Run prints a bundle as it was pushed, and its version to standard error.
func (c *policyShowCmd) Run(ctx context.Context, std streams) error {
	var entry revision
	err := c.withPolicies(ctx, func(store policyStore) (err error) {
		entry, err = store.choose(ctx, c.Revision, newest)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return std.json(struct {
			pushedBundle
			Bundle string `json:"bundle"`
		}{entry.describe(), string(entry.Content)})
	}
	fmt.Fprintf(std.err, "# version %s, revision %d, pushed %s\n", versionOf(entry.Content), entry.Revision(), entry.Created().Local().Format(time.DateTime))
	_, err = std.out.Write(entry.Content)
	return err
}

// choose returns the revision with a number; for 0, the one that pick returns.
func (s policyStore) choose(ctx context.Context, number uint64, pick func([]revision) (revision, error)) (revision, error) {
	entries, err := s.pushed(ctx)
	if err != nil {
		return revision{}, err
	}
	if number == 0 {
		return pick(entries)
	}
	for _, e := range entries {
		if e.Revision() == number && e.holds() {
			return e, nil
		}
	}
	return revision{}, fmt.Errorf("no bundle has the revision %d; `unloop policy history` lists those that are kept", number)
}

// newest returns the bundle that gateways use: the last one sealed or, without seals, the
// last one stored.
func newest(entries []revision) (last revision, err error) {
	for _, e := range entries {
		if e.fault == nil && !e.At.Before(last.At) {
			last = e
		}
	}
	if !last.holds() {
		return revision{}, errNotPushed
	}
	return last, nil
}

// before returns the newest bundle that differs from the one in force.
func before(entries []revision) (revision, error) {
	current := ""
	if last, err := newest(entries); err == nil {
		current = string(last.Content)
	}
	for _, e := range slices.Backward(entries) {
		if e.holds() && string(e.Content) != current {
			return e, nil
		}
	}
	return revision{}, errors.New("no other bundle was pushed before")
}

type policyHistoryCmd struct{ listing }

// pushedBundle is a revision of the pushed bundle, as JSON.
type pushedBundle struct {
	Revision uint64 `json:"revision"`
	// Version is empty if the bundle was withdrawn or is not used.
	Version string    `json:"version,omitempty"`
	Pushed  time.Time `json:"pushed"`
	Bytes   int       `json:"bytes"`
	// Refused says why no gateway uses the bundle.
	Refused string `json:"refused,omitempty"`
}

// Run lists the pushed bundles, newest first.
func (c *policyHistoryCmd) Run(ctx context.Context, std streams) error {
	trust, err := c.trust()
	if err != nil {
		return err
	}
	read := func(ctx context.Context, js jetstream.JetStream) (all []pushedBundle, err error) {
		entries, err := policyStore{js: js, trust: trust}.pushed(ctx)
		for _, e := range slices.Backward(entries) {
			all = append(all, e.describe())
		}
		return all, err
	}
	return list[pushedBundle]{read, "No bundle was pushed.", historyTable}.run(ctx, &c.listing, std)
}

// describe returns the revision for JSON.
func (r revision) describe() pushedBundle {
	b := pushedBundle{Revision: r.Revision(), Pushed: r.Created(), Bytes: len(r.Content)}
	switch {
	case r.fault != nil:
		b.Refused = r.fault.Error()
	case r.holds():
		b.Version = versionOf(r.Content)
	}
	return b
}

func historyTable(all []pushedBundle, now time.Time) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "REVISION", Right: true}, terminal.Column{Name: "VERSION", MinWidth: 10}, terminal.Column{Name: "PUSHED"},
		terminal.Column{Name: "AGE", Rank: 1}, terminal.Column{Name: "BYTES", Rank: 2, Right: true})
	for _, b := range all {
		version := cmp.Or(b.Version, "withdrawn")
		if b.Refused != "" {
			version = "not used: " + b.Refused
		}
		t.Row(strconv.FormatUint(b.Revision, 10), version, terminal.Moment(b.Pushed, now), terminal.Age(now.Sub(b.Pushed)), thousands(b.Bytes))
	}
	return t
}

type policyRollbackCmd struct {
	pusher
	Revision uint64 `arg:"" optional:"" help:"Revision to go back to. Default: the newest that differs from the bundle in force."`
}

// Run pushes an earlier bundle again, as a new revision.
func (c *policyRollbackCmd) Run(ctx context.Context, std streams) error {
	return c.withPolicies(ctx, func(store policyStore) error {
		entry, err := store.choose(ctx, c.Revision, before)
		if err != nil {
			return err
		}
		if bundle, err := policy.ParseTolerant(entry.Content); err != nil || bundle.ExpiredAt(time.Now()) {
			return fmt.Errorf("revision %d can't be used any more: no gateway would load it", entry.Revision())
		}
		return c.push(ctx, std, store, entry.Content, versionOf(entry.Content))
	})
}

type policyWithdrawCmd struct{ pusher }

// Run removes the pushed bundle. Its history stays.
func (c *policyWithdrawCmd) Run(ctx context.Context, std streams) error {
	return c.withPolicies(ctx, func(store policyStore) error {
		if _, err := operator.Store(ctx, store.js, store.by, schemas.BucketPolicies, schemas.KeyBundle, nil, 0); err != nil {
			return fmt.Errorf("withdraw the bundle: %w", err)
		}
		c.record(ctx, store.js, std, schemas.AuditPolicy, schemas.KeyBundle, "withdrawn")
		return c.show(std, map[string]bool{"withdrawn": true}, func(out *printer) {
			out.printf("Withdrawn. Gateways without a --policies file use the default policy.\n")
		})
	})
}
