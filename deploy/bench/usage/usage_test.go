package usage

import (
	"errors"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/unloop/unloop/schemas/kit/service"
)

func TestProcessorTimeGrowsWithWork(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports it")
	}
	before, err := Processor(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = 20 * time.Millisecond
	for after := before; after < before+work; {
		if after, err = Processor(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Processor(1 << 22); err == nil {
		t.Error("a process that cannot be has a processor time")
	}
	if m := Memory(os.Getpid()); m < 1<<20 || Memory(1<<22) != 0 {
		t.Errorf("memory %d", m)
	}
}

func TestMetricsOfAProcess(t *testing.T) {
	t.Parallel()
	reg := service.NewRegistry()
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	defer server.Close()
	m, err := Metrics(t.Context(), server.URL, Allocations, AllocatedBytes)
	if err != nil || m[Allocations] <= 0 || m[AllocatedBytes] <= m[Allocations] {
		t.Errorf("metrics %v, error %v", m, err)
	}
	if _, err := Metrics(t.Context(), server.URL, "unloop_nothing"); !errors.Is(err, ErrNoMetric) {
		t.Errorf("error %v", err)
	}
}
