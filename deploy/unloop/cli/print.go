package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/unloop/unloop/deploy/unloop/terminal"
)

// streams are where a command writes, and the screen behind out.
type streams struct {
	out, err io.Writer
	screen   terminal.Screen
}

// json prints a value as indented JSON.
func (s streams) json(v any) error {
	enc := json.NewEncoder(s.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// jsonLines prints values as JSON, one a line.
func jsonLines[T any](s streams, all []T) error {
	enc := json.NewEncoder(s.out)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// print prints a table.
func (s streams) print(t *terminal.Table) error { return t.Print(s.out, s.screen) }

// printer returns a printer to out.
func (s streams) printer() *printer { return &printer{w: s.out, screen: s.screen} }

// watchEvery is the time between two drawings of --watch.
const watchEvery = time.Second

// watch draws until the context ends: on a live screen over what was drawn before, and
// elsewhere only what differs from that.
func (s streams) watch(ctx context.Context, draw func(streams) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var before []byte
	for {
		var page bytes.Buffer
		if err := draw(streams{&page, s.err, s.screen}); err != nil {
			return err
		}
		if s.screen.Live || !bytes.Equal(page.Bytes(), before) {
			before = bytes.Clone(page.Bytes())
			if _, err := io.WriteString(s.out, s.screen.Clear()+page.String()); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// formatted is the flag of commands whose output programs may read.
type formatted struct {
	JSON bool `name:"json" short:"j" help:"Print JSON."`
}

// show prints a value as JSON, or what print prints of it.
func (f formatted) show(io streams, v any, print func(*printer)) error {
	if f.JSON {
		return io.json(v)
	}
	out := io.printer()
	print(out)
	return out.err
}

// done prints a value as JSON on one line, or a sentence that says what was done.
func (f formatted) done(io streams, v any, sentence string, args ...any) error {
	if f.JSON {
		return jsonLines(io, []any{v})
	}
	_, err := fmt.Fprintf(io.out, sentence, args...)
	return err
}

// watched is the flag of commands that can print again and again.
type watched struct {
	Watch bool `short:"w" env:"-" help:"Print again whenever something changes, until Ctrl-C."`
}

// draw runs draw once, or again and again with --watch.
func (w watched) draw(ctx context.Context, io streams, draw func(streams) error) error {
	if w.Watch {
		return io.watch(ctx, draw)
	}
	return draw(io)
}

// printer keeps the first error of a series of prints.
type printer struct {
	w      io.Writer
	screen terminal.Screen
	err    error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table prints a table.
func (p *printer) table(t *terminal.Table) {
	if p.err == nil {
		p.err = t.Print(p.w, p.screen)
	}
}

// plural returns a number with its noun.
func plural(n int, noun string) string { return counted(n, strconv.Itoa(n), noun) }

// counted returns a formatted number with its noun in the right form.
func counted(n int, formatted, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return formatted + " " + noun + "s"
}

// span is a flag's duration, in days and weeks too.
type span time.Duration

// errSpan says how a duration is written.
var errSpan = errors.New("must be a duration such as 90s, 10m, 1h30m, 1d or 2w")

// UnmarshalText reads a duration.
func (s *span) UnmarshalText(text []byte) error {
	if d, err := time.ParseDuration(string(text)); err == nil {
		*s = span(d)
		return nil
	}
	d, err := model.ParseDuration(string(text))
	if err != nil {
		return errSpan
	}
	*s = span(d)
	return nil
}

// String writes the duration as it is read.
func (s span) String() string { return model.Duration(s).String() }
