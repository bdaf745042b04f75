package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/unloop/unloop/detector/internal/metrics"
	"github.com/unloop/unloop/schemas/checkpb"
)

func TestDecisionsAndFindingsAreCounted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	m.Checked(checkpb.Action_ACTION_REJECT)
	m.Found([]*checkpb.Finding{
		{Policy: "p", Detector: "prompt", Action: checkpb.Action_ACTION_REJECT}, {Policy: "p", Detector: "prompt", Action: checkpb.Action_ACTION_WARN, Shadow: true},
	})
	m.Malformed.Inc()
	const want = `# HELP unloop_detector_checks_total Checks decided, by the strongest action.
# TYPE unloop_detector_checks_total counter
unloop_detector_checks_total{action="reject"} 1
# HELP unloop_detector_findings_total Findings by policy, detector, mode and action.
# TYPE unloop_detector_findings_total counter
unloop_detector_findings_total{action="reject",detector="prompt",mode="enforce",policy="p"} 1
unloop_detector_findings_total{action="warn",detector="prompt",mode="shadow",policy="p"} 1
# HELP unloop_detector_malformed_total Messages that are not a valid check, release or outcome.
# TYPE unloop_detector_malformed_total counter
unloop_detector_malformed_total 1
`
	names := []string{"unloop_detector_checks_total", "unloop_detector_findings_total", "unloop_detector_malformed_total"}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
