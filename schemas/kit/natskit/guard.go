package natskit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/pause"
)

const (
	// guardEvery is the shortest pause between two checks of the embedded server, and the
	// pause after a failed one. Otherwise a check of one stream follows after guardIdle, or
	// one of all streams as soon as a write of this process fails or the server logs an
	// error.
	guardEvery, guardIdle = time.Second, 5 * time.Second
	// guardRest is the pause after a restart; each restart that did not help doubles it,
	// up to guardRestMax.
	guardRest, guardRestMax = 2 * time.Second, time.Minute
	// guardTimeout bounds one check; guardLooks must fail in a row.
	guardTimeout, guardLooks = time.Second, 2
	// guardLooksLate is the number for checks that timed out while the process lacked a
	// processor.
	guardLooksLate = 20
	// diskProbe is how many bytes must fit on the disk before a restart is tried.
	diskProbe = 1 << 20
)

// errDisabled means that the server has disabled JetStream.
var errDisabled = errors.New("JetStream is disabled")

// Guard restarts the server whenever its store keeps failing, until the context ends. A disk
// that was full for a moment leaves streams broken until a restart.
func (e *Embedded) Guard(ctx context.Context) {
	if e.memory {
		return
	}
	conn, err := e.Connect("guard", e.log)
	if err != nil {
		e.log.Error("the embedded NATS server is not guarded", "error", err)
		return
	}
	defer conn.Close()
	rest, earliest, vain := guardRest, time.Now(), 0
	var starvation Starvation
	for look := 0; ; look++ {
		due, err := e.untilLook(ctx, vain > 0)
		if err != nil {
			return
		}
		streams := probed
		if !due {
			streams = probed[look%len(probed):][:1]
		}
		broken := e.broken(ctx, conn, streams)
		looks := looksFor(broken, starvation.Since())
		if broken == nil {
			vain = 0
			if time.Since(earliest) > guardRestMax {
				rest = guardRest
			}
			continue
		}
		if vain++; vain == guardLooks {
			e.log.Error("the embedded NATS server does not store", "error", broken)
		}
		if vain < looks || time.Now().Before(earliest) || e.diskFault() != nil || ctx.Err() != nil {
			continue
		}
		e.log.Warn("restarting the embedded NATS server: its disk accepts writes again, but it does not")
		if err := e.restart(); err != nil {
			e.log.Error("the embedded NATS server did not restart", "error", err)
		}
		earliest, rest = time.Now().Add(rest), min(2*rest, guardRestMax)
	}
}

// untilLook waits for the next check, given whether the last one failed, and reports whether
// there is a cause for it.
func (e *Embedded) untilLook(ctx context.Context, failed bool) (due bool, err error) {
	if err := pause.For(ctx, guardEvery); failed || err != nil {
		return true, err
	}
	select {
	case <-e.suspect:
		return true, ctx.Err()
	case <-time.After(guardIdle):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// looksFor returns how many checks must fail in a row, given the fault of the last one and
// whether the process was without a processor.
func looksFor(fault error, starved bool) int {
	if starved && errors.Is(fault, context.DeadlineExceeded) {
		return guardLooksLate
	}
	return guardLooks
}

// broken returns the error of an existing stream that does not take writes, unless it is
// full: no restart makes room.
func (e *Embedded) broken(ctx context.Context, conn *Conn, streams []string) error {
	if !e.server().JetStreamEnabled() {
		return errDisabled
	}
	if conn.Err() != nil {
		return nil // it is still starting
	}
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	for _, stream := range streams {
		_, err := conn.JetStream().Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err == nil {
			err = tryWrite(ctx, conn.JetStream(), stream)
		}
		if err != nil && !IsFull(err) && whole.Err() == nil {
			return fmt.Errorf("%s: %w", stream, err)
		}
	}
	return nil
}

// diskFault tries to write a file to the data directory.
func (e *Embedded) diskFault() error {
	path := filepath.Join(e.dir, "unloop.probe")
	defer func() { _ = os.Remove(path) }() // the next probe replaces it
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, diskProbe))
	return errors.Join(err, f.Sync(), f.Close())
}
