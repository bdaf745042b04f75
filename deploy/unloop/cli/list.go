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

// list describes how to list records of one kind.
type list[T any] struct {
	read func(context.Context, jetstream.JetStream) ([]T, error)
	// none is printed if there are none.
	none  string
	table func([]T, time.Time) *terminal.Table
}

// run prints the list, and again at each change with --watch.
func (l list[T]) run(ctx context.Context, c *listing, std streams) error {
	js, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	return c.draw(ctx, std, func(std streams) error {
		all, err := l.read(ctx, js)
		switch {
		case err != nil:
			return explain(err)
		case c.JSON:
			return jsonLines(std, all)
		case len(all) == 0:
			_, err = fmt.Fprintln(std.out, l.none)
			return err
		}
		return l.table(all, time.Now()).Print(std.out, std.screen)
	})
}
