package encoding_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/unloop/unloop/gateway/internal/wire/encoding"
)

func compress(t testing.TB, coding string, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	case "zstd":
		zw, err := zstd.NewWriter(&out, zstd.WithWindowSize(1<<20))
		if err != nil {
			t.Fatal(err)
		}
		w = zw
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// plenty is memory without bounds.
func plenty(int) error { return nil }

// A few bytes become many: what they become is taken from the memory for bodies, exactly.
func TestMemoryIsTakenForWhatBodiesBecome(t *testing.T) {
	t.Parallel()
	body := make([]byte, 8<<20)
	errFull := errors.New("full")
	for coding, sent := range map[string][]byte{
		"identity": body, "gzip": compress(t, "gzip", body), "br": compress(t, "br", body), "zstd, gzip": compress(t, "gzip", compress(t, "zstd", body)),
	} {
		taken := 0
		got, err := encoding.Decode(coding, sent, int64(len(body)), func(n int) error {
			taken += n
			return nil
		})
		if want := len(body); err != nil || len(got) != want || coding != "identity" && (taken != want || cap(got) > want+want/4) {
			t.Errorf("%s: %d bytes, for which %d were taken: %v", coding, cap(got), taken, err)
		}
		if _, err := encoding.Decode(coding, sent, int64(len(body)), func(int) error { return errFull }); (coding != "identity") != errors.Is(err, errFull) {
			t.Errorf("%s: without memory: %v", coding, err)
		}
	}
}

func TestBodiesAreDecoded(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat(`{"messages":[]} `, 1000))
	for coding, sent := range map[string][]byte{
		"": body, "identity": body, "gzip": compress(t, "gzip", body), "X-GZip": compress(t, "gzip", body),
		"br": compress(t, "br", body), "zstd": compress(t, "zstd", body),
		"gzip, br":  compress(t, "br", compress(t, "gzip", body)),
		"zstd,gzip": compress(t, "gzip", compress(t, "zstd", body)),
	} {
		got, err := encoding.Decode(coding, sent, int64(len(body)), plenty)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%q: %d bytes, %v", coding, len(got), err)
		}
	}
}

func TestStreamsAreDecodedAsTheyCome(t *testing.T) {
	t.Parallel()
	body := []byte(strings.Repeat(`{"messages":[]} `, 1000))
	for _, coding := range []string{"gzip", " X-GZip", "br", "zstd"} {
		r, err := encoding.NewReader(coding, bytes.NewReader(compress(t, strings.TrimPrefix(strings.ToLower(strings.TrimSpace(coding)), "x-"), body)))
		if err != nil {
			t.Fatalf("%s: %v", coding, err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) || r.Close() != nil {
			t.Errorf("%s: %d bytes, %v", coding, len(got), err)
		}
	}
	if _, err := encoding.NewReader("gzip, br", bytes.NewReader(body)); !errors.Is(err, encoding.ErrUnknown) {
		t.Errorf("two codings: %v", err)
	}
}

func TestBombsAreLeftAlone(t *testing.T) {
	t.Parallel()
	bomb := make([]byte, 8<<20)
	for _, coding := range []string{"gzip", "br", "zstd"} {
		if _, err := encoding.Decode(coding, compress(t, coding, bomb), 1<<20, plenty); !errors.Is(err, encoding.ErrTooLarge) {
			t.Errorf("%s: %v", coding, err)
		}
	}
}

func TestWhatIsNoneOfTheCodingsIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		coding, body string
		want         error
	}{
		{"compress", "x", encoding.ErrUnknown}, {"gzip,gzip,gzip,gzip", "x", encoding.ErrUnknown}, {"\xff", "x", encoding.ErrUnknown},
		{"gzip", "x", encoding.ErrCorrupt}, {"br", "\xff\xff\xff", encoding.ErrCorrupt}, {"zstd", "xxxxxxxxx", encoding.ErrCorrupt},
		{"gzip", string(compress(t, "gzip", []byte("hello"))[:12]), encoding.ErrCorrupt},
	} {
		if _, err := encoding.Decode(c.coding, []byte(c.body), 1000, plenty); !errors.Is(err, c.want) {
			t.Errorf("%q of %q: %v, want %v", c.coding, c.body, err, c.want)
		}
	}
}

func TestAcceptKeepsWhatCanBeRead(t *testing.T) {
	t.Parallel()
	for accepted, want := range map[string]string{
		"gzip, deflate, br, zstd": "gzip, br, zstd", "deflate": "identity", "*": "identity", "br;q=0.5, gzip;q=1": "br;q=0.5, gzip;q=1", "": "identity",
	} {
		if got := encoding.Accept([]string{accepted}); got != want {
			t.Errorf("%q: %q, want %q", accepted, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "br", "zstd"} {
		f.Add(coding, compress(f, coding, []byte(`{"a":1}`)))
	}
	f.Fuzz(func(t *testing.T, coding string, body []byte) {
		const limit = 1 << 16
		if got, err := encoding.Decode(coding, body, limit, plenty); err == nil && coding != "" && len(got) > max(limit, len(body)) {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
