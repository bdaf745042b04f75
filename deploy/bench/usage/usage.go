// Package usage reads the processor time and memory of processes from the operating system,
// and their allocations from the metrics that they serve.
package usage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoMetric is the error for a metric that a process does not have.
var ErrNoMetric = errors.New("no such metric")

// Memory returns the resident memory of a process in bytes, or 0 where the system does not
// report it.
func Memory(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	field, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, _ := strconv.ParseInt(field, 10, 64) // 0 if the line is missing
	return kib << 10
}

// Names of metrics of every Go process.
const (
	Allocations    = "go_memstats_mallocs_total"
	AllocatedBytes = "go_memstats_alloc_bytes_total"
)

// Metrics returns the metrics that a process serves at url, each the sum of its series. It
// fails if the status is not 200 or one of names is missing.
func Metrics(ctx context.Context, url string, names ...string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: %s answers with %s", url, res.Status)
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		series, text, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] += value
		}
	}
	for _, name := range names {
		if _, ok := out[name]; !ok {
			return nil, fmt.Errorf("%w: %s at %s", ErrNoMetric, name, url)
		}
	}
	return out, lines.Err()
}
