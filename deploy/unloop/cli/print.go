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

// streams are a command's standard output and error, with the screen behind out.
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

// jsonLines prints each value as a line of JSON.
func jsonLines[T any](s streams, all []T) error {
	enc := json.NewEncoder(s.out)
	for _, v := range all {
		if err := enc.Encode(v); err != nil {
			return err
		}
	}
	return nil
}

// printer returns a printer that writes to out.
func (s streams) printer() *printer { return &printer{w: s.out, screen: s.screen} }

// watchEvery is the interval of --watch.
const watchEvery = time.Second

// watch draws until the context ends. It redraws a live screen; elsewhere it prints only
// what has changed.
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

// formatted has the flag --json.
type formatted struct {
	JSON bool `name:"json" short:"j" help:"Print JSON."`
}

// show prints a value as JSON, or calls print to print it for people.
func (f formatted) show(std streams, v any, print func(*printer)) error {
	if f.JSON {
		return std.json(v)
	}
	out := std.printer()
	print(out)
	return out.err
}

// done reports an action: as a line of JSON, or as a sentence.
func (f formatted) done(std streams, v any, sentence string, args ...any) error {
	if f.JSON {
		return jsonLines(std, []any{v})
	}
	_, err := fmt.Fprintf(std.out, sentence, args...)
	return err
}

// watched has the flag --watch.
type watched struct {
	Watch bool `short:"w" env:"-" help:"Print again whenever something changes, until Ctrl-C."`
}

// draw calls draw once, or repeatedly with --watch.
func (w watched) draw(ctx context.Context, std streams, draw func(streams) error) error {
	if w.Watch {
		return std.watch(ctx, draw)
	}
	return draw(std)
}

// printer prints until the first error, which it keeps.
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

// plural returns a number with its noun, such as "1 policy" or "12 345 requests".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "y"); ok {
		noun = stem + "ie"
	}
	return thousands(n) + " " + noun + "s"
}

// thousands formats a number with a space between groups of three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// span is the duration of a flag, which may be in days and weeks.
type span time.Duration

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

// String formats the duration as UnmarshalText reads it.
func (s span) String() string { return model.Duration(s).String() }
