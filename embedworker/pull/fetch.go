package pull

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// fetch downloads a file to part, beginning where part ends. As long as each
// attempt gets further a lost connection is taken up again.
func (o Options) fetch(ctx context.Context, a Artifact, part string) error {
	if o.From != "" && !isURL(o.From) {
		return o.copyFrom(ctx, a, part)
	}
	address := a.URL
	if o.From != "" {
		var err error
		if address, err = url.JoinPath(o.From, a.baseName()); err != nil {
			return fmt.Errorf("%w: %w", ErrDownload, err)
		}
	}
	for {
		before := size(part)
		if before == a.Size {
			return nil // an earlier call came this far; the checksum decides
		}
		err := o.download(ctx, a, address, part)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrChecksum) || size(part) <= before {
			return err
		}
	}
}

func isURL(from string) bool {
	return strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// copyFrom takes a file out of a folder.
func (o Options) copyFrom(ctx context.Context, a Artifact, part string) error {
	f, err := os.Open(filepath.Join(o.From, a.baseName()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	defer func() { _ = f.Close() }()
	return o.save(ctx, a, f, part, 0)
}

func (o Options) download(ctx context.Context, a Artifact, address, part string) error {
	have := size(part)
	if have > a.Size {
		have = 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	// Compression on the way would make ranges and sizes those of something else.
	req.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(have, 10)+"-")
	}
	res, err := o.Client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDownload, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusOK:
		have = 0
	case res.StatusCode != http.StatusPartialContent || !continues(res, have):
		return fmt.Errorf("%w: %s answers %s", ErrDownload, address, res.Status)
	}
	if err := o.save(ctx, a, res.Body, part, have); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDownload, address, err)
	}
	if got := size(part); got < a.Size {
		return fmt.Errorf("%w: %s ended after %d of %d bytes", ErrDownload, address, got, a.Size)
	}
	return nil
}

// save appends the data from r to the file. It removes a file that gets too long.
func (o Options) save(ctx context.Context, a Artifact, r io.Reader, part string, have int64) error {
	flag := os.O_APPEND
	if have == 0 {
		flag = os.O_TRUNC
	}
	err := writeFile(part, o.watched(ctx, a, r, have), flag)
	if errors.Is(err, ErrChecksum) {
		err = errors.Join(err, os.Remove(part))
	}
	return err
}

// continues reports whether a partial answer begins where it was asked to.
func continues(res *http.Response, at int64) bool {
	return strings.HasPrefix(res.Header.Get("Content-Range"), "bytes "+strconv.FormatInt(at, 10)+"-")
}

// watched reports progress, ends with the context, and refuses more bytes than
// the file has.
func (o Options) watched(ctx context.Context, a Artifact, r io.Reader, done int64) io.Reader {
	return &watched{ctx: ctx, r: r, report: o.Progress, p: Progress{Name: filepath.Base(a.Path), Done: done, Total: a.Size}}
}

type watched struct {
	ctx    context.Context
	r      io.Reader
	report func(Progress)
	p      Progress
}

func (w *watched) Read(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.r.Read(b)
	w.p.Done += int64(n)
	if w.p.Done > w.p.Total {
		return n, fmt.Errorf("%w: the file is longer than %d bytes", ErrChecksum, w.p.Total)
	}
	w.report(w.p)
	return n, err
}
