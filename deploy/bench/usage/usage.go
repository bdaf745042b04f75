// Package usage reads what processes take: processor time, memory, and what their Go
// runtime allocates, from the operating system and from their metrics.
//
// It does not know what the processes do.
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

// ErrNoMetric says that a process does not have a metric.
var ErrNoMetric = errors.New("no such metric")

// Memory returns the resident memory of a process in bytes, 0 where the system does not
// report it.
func Memory(pid int) int64 {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	field, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.ParseInt(field, 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// Names of metrics of every Go process.
const (
	Allocations    = "go_memstats_mallocs_total"
	AllocatedBytes = "go_memstats_alloc_bytes_total"
)

// Metrics returns the sums of metrics of the process that serves them at url.
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
