package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/backup"
	"github.com/unloop/unloop/deploy/unloop/terminal"
	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/status"
)

type backupCmd struct {
	client
	formatted
	File string `arg:"" optional:"" help:"File to write. Default: unloop-TIME.zip in this folder."`
}

// errInterrupted means that the user stopped a backup or a restore. Other commands may be
// interrupted without an error.
var errInterrupted = errors.New("interrupted before the end")

// Help says what a backup contains.
func (*backupCmd) Help() string {
	return "A backup contains everything that Unloop stores in NATS: counters, blocks, open loops, sessions, limits, histories of texts, the pushed policies with their history, " +
		"overrides, silences, events, the audit log, and notifications that are due. Services keep running meanwhile. It contains the key for caller hashes: keep it secret."
}

// Run writes a backup.
func (c *backupCmd) Run(ctx context.Context, std streams) error {
	file := c.File
	if file == "" {
		file = "unloop-" + time.Now().UTC().Format("20060102T150405Z") + ".zip"
	}
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	m, err := backup.Create(ctx, js, file)
	switch {
	case errors.Is(err, backup.ErrNothing):
		return explain(fmt.Errorf("%w: %w", err, jetstream.ErrStreamNotFound))
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return fmt.Errorf("back up: %w", err)
	}
	return c.show(std, m, func(out *printer) {
		out.table(backupTable(m))
		out.printf("Wrote and verified %s: %d records. It contains the key for caller hashes: keep it secret.\n", file, m.Records())
	})
}

func backupTable(m *backup.Manifest) *terminal.Table {
	t := terminal.NewTable(terminal.Column{Name: "STREAM"}, terminal.Column{Name: "RECORDS", Right: true}, terminal.Column{Name: "SNAPSHOT", Right: true})
	for i := range m.Streams {
		s := &m.Streams[i]
		t.Row(s.Name, fmt.Sprint(s.State.Messages), fmt.Sprintf("%.1f KiB", float64(s.Bytes)/1024))
	}
	return t
}

type restoreCmd struct {
	client
	formatted
	actor
	File     string `arg:"" help:"Backup written by unloop backup."`
	Force    bool   `env:"-" help:"Replace streams that have records. Their records are lost."`
	Replicas int    `placeholder:"N" help:"Replicas of each stream, if the server or cluster cannot hold as many as the backup had."`
	DryRun   bool   `env:"-" help:"Verify the file and list its contents, but change nothing."`
}

// Help says how to restore.
func (*restoreCmd) Help() string {
	return "Stop the services first, or restart them afterwards. The whole file is verified before anything is changed. A stream that has records is replaced only with --force. " +
		"Records keep their times: what would have expired meanwhile has expired. If the operator's seed has changed since the backup, give the earlier public key with --seal-key: " +
		"policies and overrides in force are then sealed anew with --seal-seed."
}

// Run restores a backup.
func (c *restoreCmd) Run(ctx context.Context, std streams) error {
	if c.Replicas < 0 || c.Replicas > 5 {
		return fmt.Errorf("--replicas is %d, must be 1 to 5", c.Replicas)
	}
	a, err := backup.Open(c.File)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { _ = a.Close() }() // it was only read from
	if c.DryRun {
		return c.describe(std, &a.Manifest)
	}
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	by, err := c.signer()
	if err != nil {
		return err
	}
	trust, err := c.trust()
	if err != nil {
		return err
	}
	done, err := a.Restore(ctx, js, backup.Options{Force: c.Force, Replicas: c.Replicas})
	switch {
	case errors.Is(err, backup.ErrLive):
		return fmt.Errorf("restore: %w; stop the services and give --force to replace them", err)
	case ctx.Err() != nil && len(done) == 0:
		return errInterrupted
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %d of %d streams are restored: repeat the command with --force", errInterrupted, len(done), len(a.Manifest.Streams))
	case err != nil && len(done) > 0:
		return fmt.Errorf("%w; %d of %d streams are restored: repeat the command with --force", err, len(done), len(a.Manifest.Streams))
	case err != nil:
		return err
	}
	if by != nil {
		if _, err := operator.SealAnew(ctx, js, by, trust); err != nil {
			return fmt.Errorf("seal what was restored: %w; give --force to repeat the command", err)
		}
	}
	c.record(ctx, js, std, schemas.AuditRestore, c.File, "backup of "+a.Manifest.Created.Format(time.RFC3339))
	if c.JSON {
		return jsonLines(std, done)
	}
	return printRestored(std.printer(), done, operator.Parts(ctx, js.Conn()))
}

func (c *restoreCmd) describe(std streams, m *backup.Manifest) error {
	return c.show(std, m, func(out *printer) {
		out.table(backupTable(m))
		out.printf("%s is whole: made %s by unloop %s on NATS %s. Nothing was changed.\n", c.File, m.Created.Format(time.RFC3339), m.Unloop, m.Server)
	})
}

// printRestored prints the restored streams, and the services to restart.
func printRestored(out *printer, done []backup.Restored, running []status.Status) error {
	t := terminal.NewTable(terminal.Column{Name: "STREAM"}, terminal.Column{Name: "RECORDS", Right: true}, terminal.Column{Name: "EXPIRED", Right: true})
	for _, r := range done {
		t.Row(r.Name, fmt.Sprint(r.Records), fmt.Sprint(r.Expired))
	}
	out.table(t)
	out.printf("Restored %d streams.\n", len(done))
	for i := range running {
		out.printf("Restart the %s on %s: it has the state before the restore.\n", running[i].Service, running[i].Host)
	}
	return out.err
}
