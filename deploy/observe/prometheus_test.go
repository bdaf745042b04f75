package observe

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unloop/unloop/schemas/kit/natstest"
)

// every is the scrape interval of the tests, and so the longest time that a scrape may take.
const every = time.Second

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// found is how the configuration finds a service by its name.
var found = regexp.MustCompile(`dns_sd_configs: \[\{names: \[(\w+)(?:, [\w-]+)*\], type: A, port: 8081, refresh_interval: 15s\}\]`)

// startPrometheus starts one with the repository's configuration. It changes only the
// addresses of services, the file of the key and the intervals.
func startPrometheus(t *testing.T, services map[string][]string, keyFile string) *prometheus {
	t.Helper()
	binary, dir := tool(t, "prometheus"), t.TempDir()
	config := found.ReplaceAllStringFunc(read(t, "prometheus/prometheus.yml"), func(text string) string {
		addresses := services[found.FindStringSubmatch(text)[1]]
		return `static_configs: [{targets: ["` + strings.Join(addresses, `", "`) + `"]}]`
	})
	if strings.Contains(config, "dns_sd_configs") {
		t.Fatalf("a service is found in another way:\n%s", config)
	}
	config = strings.NewReplacer("/run/secrets/unloop-admin-key", keyFile, ": 15s", ": "+every.String()).Replace(config)
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	write(t, filepath.Join(dir, "alerts.yml"), read(t, "prometheus/alerts.yml"))
	if out, err := exec.Command(tool(t, "promtool"), "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Fatalf("promtool check config: %v\n%s", err, out)
	}
	p := &prometheus{"http://" + natstest.FreeAddr(t)}
	cmd := exec.Command(binary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(p.url, "http://"), "--log.level=error")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return p
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get reads data from the HTTP API.
func (p *prometheus) get(path string, parameters url.Values, data any) error {
	res, err := http.Get(p.url + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w: %s", path, err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// series is one element of the result of a query.
type series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// number reports whether the series has a value that is a number.
func (s series) number() bool {
	return slices.ContainsFunc(append(s.Values, s.Value), func(sample [2]any) bool { return sample[1] != nil && sample[1] != "NaN" })
}

// query returns the result of an expression now, or over the last seconds as a panel shows it.
func (p *prometheus) query(expr string, over time.Duration) ([]series, error) {
	var data struct{ Result []series }
	if over == 0 {
		err := p.get("query", url.Values{"query": {expr}}, &data)
		return data.Result, err
	}
	now := time.Now()
	at := func(t time.Time) []string { return []string{fmt.Sprint(float64(t.UnixMilli()) / 1000)} }
	err := p.get("query_range", url.Values{"query": {expr}, "start": at(now.Add(-over)), "end": at(now), "step": {"1"}}, &data)
	return data.Result, err
}

// await returns when an expression has a result.
func (p *prometheus) await(t *testing.T, expr string) {
	t.Helper()
	tick := time.NewTicker(every / 10)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		result, err := p.query(expr, 0)
		if err == nil && len(result) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s has no result: %v", expr, err)
		}
	}
}
