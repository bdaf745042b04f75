package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/deploy/unloop/terminal"
)

// listing has the flags of commands that list records.
type listing struct {
	client
	formatted
	watched
}

// list says how things of one kind are listed.
type list[T any] struct {
	read func(context.Context, jetstream.JetStream) ([]T, error)
	// none is printed if there is nothing.
	none  string
	table func([]T, time.Time) *terminal.Table
}

// run prints the list, and with --watch again whenever it changes.
func (l list[T]) run(ctx context.Context, c *listing, io streams) error {
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	return c.draw(ctx, io, func(io streams) error {
		all, err := l.read(ctx, js)
		switch {
		case err != nil:
			return explain(err)
		case c.JSON:
			return jsonLines(io, all)
		case len(all) == 0:
			_, err = fmt.Fprintln(io.out, l.none)
			return err
		}
		return io.print(l.table(all, time.Now()))
	})
}
