package policystore

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/schemas/kit/guarded"
)

// patience bounds what a test waits for; nothing healthy comes near it.
const patience = 30 * time.Second

// bundleText is a bundle of that number, told apart by its one policy.
func bundleText(version int) string {
	return fmt.Sprintf("bundle_version: %d\npolicies:\n  - id: p%d\n    spec: {prompt: {tail_messages: %d}}\n", version, version, version)
}

// news is a bundle that was put into force, or refused with an error.
type news struct {
	version string
	err     error
}

// newsLog is a log handler that passes on what is logged of bundles while the gateway
// runs.
type newsLog struct {
	slog.Handler
	news chan news
}

func (l newsLog) Enabled(context.Context, slog.Level) bool { return true }

func (l newsLog) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]any{}
	r.Attrs(func(a slog.Attr) bool { attrs[a.Key] = a.Value.Any(); return true })
	switch {
	case r.Message == "policies in force":
		l.news <- news{version: fmt.Sprint(attrs["version"])}
	case r.Level >= slog.LevelError:
		err, _ := attrs["error"].(error)
		l.news <- news{err: err}
	}
	return nil
}

// await returns the next news.
func await(t *testing.T, told <-chan news) news {
	t.Helper()
	select {
	case n := <-told:
		return n
	case <-time.After(patience):
		t.Fatal("nothing was logged")
		return news{}
	}
}

// wantVersion waits until a bundle of that number is in force. A file that is
// written in place may be read half written first, and is refused then.
func wantVersion(t *testing.T, p *Policies, told <-chan news, version int) {
	t.Helper()
	prefix := fmt.Sprintf("%d-", version)
	n := await(t, told)
	for n.err != nil {
		n = await(t, told)
	}
	if !strings.HasPrefix(n.version, prefix) {
		t.Fatalf("told %q; want version %d", n.version, version)
	}
	if got := p.Rules(); !strings.HasPrefix(got.Version(), prefix) || got.Options("").Tail != version {
		t.Fatalf("in force is %s with tail %d, want version %d", got.Version(), got.Options("").Tail, version)
	}
}

// load returns the policies of a file, "" for none, and what they log.
func load(t *testing.T, file string) (*Policies, <-chan news) {
	t.Helper()
	told := make(chan news, 100)
	p, err := New(Config{File: file}, time.Now, slog.New(newsLog{slog.DiscardHandler, told}), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return p, told
}

// watched loads a file and follows it until the test ends.
func watched(t *testing.T, file string) (*Policies, <-chan news) {
	t.Helper()
	p, told := load(t, file)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.FollowFile(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p, told
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestChangedFileIsFollowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, file, text string){
		"written in place": put,
		"replaced by a rename": func(t *testing.T, file, text string) {
			put(t, file+"~", text)
			must(t, os.Rename(file+"~", file))
		},
		"removed and written": func(t *testing.T, file, text string) {
			must(t, os.Remove(file))
			put(t, file, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "policies.yaml")
			put(t, file, bundleText(1))
			b, told := watched(t, file)
			for version := 2; version < 5; version++ {
				change(t, file, bundleText(version))
				wantVersion(t, b, told, version)
			}
		})
	}
}

func TestMountedFileIsFollowedWhenItsFolderIsSwapped(t *testing.T) {
	t.Parallel()
	// As Kubernetes mounts a ConfigMap: file → ..data/file, ..data → a folder.
	dir := t.TempDir()
	mount := func(version int) {
		name := fmt.Sprint("..", version)
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		put(t, filepath.Join(dir, name, "policies.yaml"), bundleText(version))
		must(t, os.Symlink(name, filepath.Join(dir, "..tmp")))
		must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	mount(1)
	file := filepath.Join(dir, "policies.yaml")
	must(t, os.Symlink(filepath.Join("..data", "policies.yaml"), file))
	b, told := watched(t, file)
	for version := 2; version < 5; version++ {
		mount(version)
		wantVersion(t, b, told, version)
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprint("..", version-1))))
	}
}

func TestBadFileChangesNothingAndIsCounted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	put(t, file, bundleText(1))
	b, told := watched(t, file)
	for i, bad := range []string{
		"bundle_version: 2\npolices: []\n", "{", bundleText(3) + "expires_at: 2020-01-01T00:00:00Z\n",
	} {
		put(t, file, bad)
		if n := await(t, told); n.err == nil {
			t.Fatalf("%q was taken", bad)
		}
		if got := testutil.ToFloat64(b.rejected.WithLabelValues(sourceFile)); got != float64(i+1) {
			t.Errorf("%v bundles counted as rejected, want %d", got, i+1)
		}
	}
	if v := b.Rules().Version(); !strings.HasPrefix(v, "1-") {
		t.Errorf("version %s is in force, want 1", v)
	}
	refused := b.refused.WithLabelValues(sourceFile)
	if testutil.ToFloat64(refused) != 1 {
		t.Error("the file's bundle is not shown as refused")
	}
	put(t, file, bundleText(4))
	wantVersion(t, b, told, 4)
	if testutil.ToFloat64(refused) != 0 {
		t.Error("a bundle in force is shown as refused")
	}
	if got := testutil.CollectAndCount(b.version); got != 1 {
		t.Errorf("%d versions are shown as in force", got)
	}
}

func TestBundleThatCantBeUsedKeepsTheGatewayFromStarting(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"fault":   "bundle_version: 0\npolicies: []\n",
		"expired": bundleText(1) + "expires_at: 2020-01-01T00:00:00Z\n",
	} {
		file := filepath.Join(t.TempDir(), "policies.yaml")
		put(t, file, text)
		_, err := New(Config{File: file}, time.Now, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v; want an error that names the file", name, err)
		}
	}
}

// A bundle's URL must not lead into the network that the gateway stands in,
// by a name, an address or a redirect.
func TestABundlesKeysComeFromPublicAddressesAlone(t *testing.T) {
	t.Parallel()
	inside := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	t.Cleanup(inside.Close)
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	for _, url := range []string{inside.URL, "https://localhost:" + port, "https://169.254.169.254/latest/meta-data"} {
		res, err := newKeysClient(nil).Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		if !guarded.Refused(err) {
			t.Errorf("%s: %v, want a prohibited address", url, err)
		}
	}
	client := newKeysClient([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	client.Transport.(*http.Transport).TLSClientConfig = inside.Client().Transport.(*http.Transport).TLSClientConfig
	res, err := client.Get(inside.URL)
	if err != nil {
		t.Fatalf("an allowed network: %v", err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusFound {
		t.Errorf("status %d: the redirect was followed", res.StatusCode)
	}
}

func TestPushedBundles(t *testing.T) {
	t.Parallel()
	p, told := load(t, "")
	if err := p.FollowFile(t.Context()); err != nil || p.Source() != "default" {
		t.Errorf("without a file: %v, source %s", err, p.Source())
	}
	p.Pushed([]byte(bundleText(1)))
	wantVersion(t, p, told, 1)
	p.Pushed([]byte(bundleText(2) + "something_new: 1\n")) // as a newer version might write it
	wantVersion(t, p, told, 2)
	p.Pushed([]byte(bundleText(2) + "something_new: 1\n"))
	p.Pushed([]byte("nonsense: ["))
	if n := await(t, told); n.err == nil || p.Source() != "pushed" || !strings.HasPrefix(p.Rules().Version(), "2-") {
		t.Errorf("after a bad bundle: %v, in force %s", n, p.Rules().Version())
	}
	if err := p.LoadPushed([]byte(bundleText(0))); err == nil {
		t.Error("a bundle with a fault was loaded")
	}
	if err := p.LoadPushed([]byte(bundleText(3))); err != nil {
		t.Error(err)
	}
	wantVersion(t, p, told, 3)
	p.Pushed(nil)
	if n := await(t, told); n.err != nil || p.Rules() != p.fallback || p.Source() != "default" {
		t.Errorf("without a bundle: %v, in force %s; want the default policy", n, p.Rules().Version())
	}
}

func TestAFileOutranksPushedBundles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policies.yaml")
	put(t, file, bundleText(1))
	p, _ := load(t, file)
	p.Pushed(nil)
	p.Pushed([]byte(bundleText(7)))
	if err := p.LoadPushed([]byte(bundleText(8))); err != nil {
		t.Error(err)
	}
	if v := p.Rules().Version(); !strings.HasPrefix(v, "1-") || p.Source() != "file" {
		t.Errorf("in force is %s from %s, want the file's 1", v, p.Source())
	}
	if _, err := New(Config{File: file + "~"}, time.Now, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err == nil {
		t.Error("a file that is not there was loaded")
	}
}

func TestWhatPoliciesNeedOfAPrompt(t *testing.T) {
	t.Parallel()
	const head = "bundle_version: 1\npolicies:\n"
	for name, c := range map[string]struct {
		policies               string
		tail, items, exchanges int
		reading                int
	}{
		"nothing":  {"- {id: a, spec: {}}", 0, 0, 0, 0},
		"prompt":   {"- {id: a, spec: {prompt: {tail_messages: 7}}}\n- {id: b, spec: {prompt: {tail_messages: 4}}}", 7, HistoryItems, 0, 0},
		"cycle":    {"- {id: a, spec: {cycle: {}}}", 0, HistoryItems, 0, 1},
		"tool":     {"- {id: a, spec: {tool: {volatile_patterns: ['x+'], error_patterns: ['^NOK']}}}\n- {id: b, spec: {tool: {volatile_defaults: false}}}", 0, HistoryItems, 0, 2},
		"semantic": {"- {id: a, spec: {semantic: {history_size: 6}}}", 0, 0, 6, 0},
	} {
		p, _ := load(t, "")
		if err := p.LoadPushed([]byte(head + c.policies)); err != nil {
			t.Fatal(err)
		}
		r := p.Rules()
		o := r.Options("/v1/x")
		if o.Tail != c.tail || o.Items != c.items || o.Exchanges != c.exchanges || o.Path != "/v1/x" || o.Cache == nil || len(r.Reading) != c.reading {
			t.Errorf("%s: %+v, %d policies read results", name, o, len(r.Reading))
		}
		for id, reads := range r.Reading {
			if own := name == "tool" && id == "a"; (reads.Failures != nil) != own || (reads.Volatile != nil) != (name == "tool") {
				t.Errorf("%s: policy %s reads by %+v", name, id, reads)
			}
		}
	}
}
