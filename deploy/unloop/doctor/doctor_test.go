package doctor

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/partition"
	"github.com/unloop/unloop/schemas/status"
)

func TestPartsThatAreAwayOrNotReady(t *testing.T) {
	t.Parallel()
	ready, not := status.Status{Service: "gateway", Ready: true}, status.Status{Service: "gateway", Host: "h", Reason: "no disk"}
	for name, c := range map[string]struct {
		found  []status.Status
		state  State
		detail string
	}{
		"none":        {nil, Fault, "none is running: no request is checked"},
		"one":         {[]status.Status{ready}, OK, "1 ready"},
		"not ready":   {[]status.Status{not}, Fault, "not ready: h: no disk"},
		"one of them": {[]status.Status{not, ready}, Warning, "1 of 2 are not ready: h: no disk"},
	} {
		f := partsFinding("gateway", Fault, "no request is checked", c.found)
		if f.State != c.state || f.Detail != c.detail || (f.Mend == "") != (c.state == OK) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestBundlesThatStopNothing(t *testing.T) {
	t.Parallel()
	on := []status.Detector{{Name: "prompt"}, {Name: "tool"}}
	for name, c := range map[string]struct {
		policies []status.Policy
		state    State
		detail   string
	}{
		"default": {[]status.Policy{{ID: "default", Mode: "enforce", Detectors: on}}, OK, "bundle 1-a (pushed); default: enforce, prompt, tool"},
		"rules":   {[]status.Policy{{ID: "p", Mode: "enforce", Rules: []string{"few"}}}, OK, "bundle 1-a (pushed); p: enforce, few"},
		"none":    {nil, Warning, "bundle 1-a (pushed): it has no policy, so nothing is checked"},
		"shadow":  {[]status.Policy{{ID: "p", Mode: "shadow", Detectors: on}}, Warning, "bundle 1-a (pushed); p: shadow, prompt, tool: loops are reported at the most, and not stopped"},
		"many":    {make([]status.Policy, 5), Warning, "and 2 more"},
	} {
		f := bundleFinding(&status.Bundle{Version: "1-a", Source: "pushed", Policies: c.policies})
		if f.State != c.state || !strings.Contains(f.Detail, c.detail) || (f.Mend == "") != (c.state == OK) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestStreamsThatNeedCare(t *testing.T) {
	t.Parallel()
	stream := func(replicas int, discard jetstream.DiscardPolicy, bytes uint64, c *jetstream.ClusterInfo) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{
			Config: jetstream.StreamConfig{Name: "S", Replicas: replicas, MaxBytes: 100, Discard: discard}, State: jetstream.StreamState{Bytes: bytes}, Cluster: c,
		}
	}
	for name, c := range map[string]struct {
		info *jetstream.StreamInfo
		want string
	}{
		"alone":           {stream(1, jetstream.DiscardOld, 0, &jetstream.ClusterInfo{Leader: "a"}), ""},
		"full of old":     {stream(1, jetstream.DiscardOld, 99, nil), ""},
		"full":            {stream(1, jetstream.DiscardNew, 99, nil), "S is nearly full"},
		"no bound":        {&jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "S", Replicas: 1, MaxBytes: -1}}, "S has no bound"},
		"one replica":     {stream(1, jetstream.DiscardOld, 0, &jetstream.ClusterInfo{Name: "c", Leader: "a"}), "one replica in a cluster, which is lost with its server: S, S"},
		"no leader":       {stream(3, jetstream.DiscardOld, 0, &jetstream.ClusterInfo{Name: "c"}), "S has no leader"},
		"offline replica": {stream(3, jetstream.DiscardOld, 0, &jetstream.ClusterInfo{Name: "c", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Offline: true}}}), "the replicas on b are offline or behind: S, S"},
		"replicas":        {stream(3, jetstream.DiscardOld, 0, &jetstream.ClusterInfo{Name: "c", Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Current: true}}}), ""},
	} {
		all := append(streamFindings(c.info), replicaFindings([]*jetstream.StreamInfo{c.info, c.info})...)
		if (c.want == "") != (len(all) == 0) || len(all) > 0 && (!strings.Contains(all[0].Detail, c.want) || all[0].Mend == "") {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

func TestRegionsThatAreCutOffAreNamed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	source := func(lag uint64, active time.Duration, err *jetstream.APIError) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: "S"}, TimeStamp: now, Sources: []*jetstream.StreamSourceInfo{{
			External: &jetstream.ExternalStream{APIPrefix: "$JS.eu.API"}, Lag: lag, Active: active, Error: err,
		}}}
	}
	for want, info := range map[string]*jetstream.StreamInfo{
		"region eu is linked, 3 records behind (S)":            source(3, time.Second, nil),
		"region eu is not heard of for 1m0s; its S wait there": source(0, time.Minute, nil),
		"region eu is never heard of; its S wait there":        source(0, -1, nil),
		"S is not copied from region eu: stream not found":     source(0, -1, &jetstream.APIError{Description: "stream not found"}),
	} {
		all := regionFindings([]*jetstream.StreamInfo{info}, now)
		if len(all) != 1 || all[0].Detail != want || (all[0].Mend == "") != strings.Contains(want, "linked") {
			t.Errorf("%+v, want %s", all, want)
		}
	}
	if all := regionFindings([]*jetstream.StreamInfo{{}}, now); len(all) > 0 {
		t.Errorf("without regions: %+v", all)
	}
}

func TestPartitionsThatNeedCare(t *testing.T) {
	t.Parallel()
	streams := func(s partition.Scheme, names ...string) map[string]*jetstream.StreamInfo {
		infos := map[string]*jetstream.StreamInfo{"KV_LOOP_COUNTERS": {Config: jetstream.StreamConfig{Name: "KV_LOOP_COUNTERS", Metadata: s.Metadata(nil)}}}
		for _, name := range names {
			infos[name] = &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: name}, State: jetstream.StreamState{Msgs: 1}}
		}
		return infos
	}
	empty := streams(partition.Scheme{Count: 2}, "KV_LOOP_SESSIONS_2")
	empty["KV_LOOP_SESSIONS_2"].State.Msgs = 0
	for name, c := range map[string]struct {
		infos map[string]*jetstream.StreamInfo
		state State
		want  string
	}{
		"settled":           {streams(partition.Scheme{Count: 2}, "KV_LOOP_SESSIONS_1"), OK, ""},
		"of a refused try":  {empty, OK, ""},
		"growing":           {streams(partition.Scheme{Count: 4, Before: 2, Phase: partition.Moving}, "KV_LOOP_SESSIONS_3"), Warning, "the growth from 2 to 4 partitions has not ended"},
		"beyond the scheme": {streams(partition.Scheme{Count: 2}, "KV_LOOP_SESSIONS_2", "KV_LOOP_VECTORS_3"), Fault, "nobody reads KV_LOOP_SESSIONS_2, KV_LOOP_VECTORS_3: the stream KV_LOOP_COUNTERS says that there are 2 partitions"},
		"no scheme":         {map[string]*jetstream.StreamInfo{"KV_LOOP_COUNTERS_1": streams(partition.Scheme{}, "KV_LOOP_COUNTERS_1")["KV_LOOP_COUNTERS_1"]}, Fault, "nobody reads KV_LOOP_COUNTERS_1"},
	} {
		all := partitionFindings(schemeOf(c.infos), c.infos)
		if c.want == "" {
			if len(all) > 0 {
				t.Errorf("%s: %+v", name, all)
			}
			continue
		}
		if len(all) != 1 || all[0].State != c.state || !strings.HasPrefix(all[0].Detail, c.want) || !strings.Contains(all[0].Mend, "unloop nats init") {
			t.Errorf("%s: %+v, want %s", name, all, c.want)
		}
	}
}

// A doctor of a real server with a growth that was interrupted, whose further partitions are
// among the streams that must be there.
func TestAnInterruptedGrowthIsAWarning(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream()
	growth := natskit.Growth{JS: js, Layout: natskit.Layout{Partitions: 2}.Everything()}
	if _, err := natskit.Prepare(t.Context(), js, growth.Layout); err != nil {
		t.Fatal(err)
	}
	if _, err := growth.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	findings := func() []Finding { return (&examination{js: js}).checkStreams(t.Context()) }
	if all := findings(); len(all) != 1 || all[0].State != Warning || !strings.Contains(all[0].Mend, "unloop nats init --partitions 2") {
		t.Errorf("%+v", all)
	}
	if err := js.DeleteStream(t.Context(), "KV_LOOP_LIMITS_1"); err != nil {
		t.Fatal(err)
	}
	if all := findings(); len(all) != 2 || all[1].State != Fault || !strings.HasPrefix(all[1].Detail, "missing: KV_LOOP_LIMITS_1") {
		t.Errorf("without a partition: %+v", all)
	}
	growth.Sealing = time.Nanosecond
	if _, err := growth.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := findings(); len(all) != 1 || all[0].State != OK || !strings.Contains(all[0].Detail, ", 2 partitions,") {
		t.Errorf("after its end: %+v", all)
	}
}

func TestEmbeddersAreNamed(t *testing.T) {
	t.Parallel()
	worker := func(embedder string) status.Status { return status.Status{Service: "embedworker", Embedder: embedder} }
	for want, parts := range map[string][]status.Status{
		"":                      {worker("")},
		"knows no synonyms":     {worker("lexical-1"), worker("lexical-1")},
		"minilm":                {worker("minilm")},
		"the workers use diffe": {worker("minilm"), worker("lexical-1")},
	} {
		all := (&examination{parts: parts}).checkEmbedder(t.Context())
		if (want == "") != (len(all) == 0) || len(all) > 0 && !strings.Contains(all[0].Detail, want) {
			t.Errorf("%q: %+v", want, all)
		}
	}
}

// A gateway that lets everything pass, and cannot reach one of its upstreams.
func TestGatewayThatStopsNothing(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, code := `{"action":"allow"}`, http.StatusOK
		switch r.URL.Path {
		case "/unloop/v1/ping":
			answer = `{"product":"unloop","service":"gateway","ready":false}`
		case "/openai/v1/models":
			answer, code = `{"error":{"message":"the upstream openai at api.openai.com could not be reached: DNS does not know the host"}}`, http.StatusBadGateway
		case "/other/v1/models":
			answer, code = `{"error":{"message":"no upstream for this path"}}`, http.StatusNotFound
		case "/anthropic/v1/models":
			answer, code = `{}`, http.StatusUnauthorized
		case "/readyz":
			answer, code = "gateway: ready\ndetector: no disk\n", http.StatusServiceUnavailable
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	cfg := Config{
		Gateway: server.URL, Admin: server.URL, Upstreams: []string{"openai", "anthropic", "other"},
		Connect: func() (jetstream.JetStream, error) { return nil, errors.New("away") },
	}
	var said []string
	for f := range Examine(t.Context(), cfg) {
		said = append(said, string(f.State)+" "+f.Check+": "+f.Detail)
		if f.State != OK && f.Mend == "" {
			t.Errorf("no mend for %+v", f)
		}
	}
	got := strings.Join(said, "\n")
	for _, want := range []string{
		"fault NATS: not reachable: away",
		"warning gateway port: " + server.URL + " answers, but is not ready",
		"fault admin port: not ready: gateway: ready; detector: no disk",
		"warning upstream openai: the upstream openai at api.openai.com could not be reached: DNS does not know the host",
		"ok upstream anthropic: answers with status 401",
		"ok latency: a check takes",
		"fault am I protected?: no: the same prompt passes 12 times",
		"fault am I protected?: no: the same tool call with the same result passes 12 times",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "upstream other") {
		t.Errorf("an unknown upstream has a finding:\n%s", got)
	}
}

func TestDiskIsLookedAtWhereStateIsOnIt(t *testing.T) {
	t.Parallel()
	for want, e := range map[int]*examination{
		0: {Config: Config{DataDir: t.TempDir()}, inMemory: true},
		1: {Config: Config{DataDir: t.TempDir()}},
	} {
		if all := e.checkDisk(t.Context()); len(all) != want {
			t.Errorf("%+v, want %d", all, want)
		}
	}
	if _, known := freeBytes("/no/such/folder"); known {
		t.Error("a folder that is not there has free space")
	}
}

func TestWhatPartsSayOfNATS(t *testing.T) {
	t.Parallel()
	all := natsFindings([]status.Status{
		{Service: "gateway", Host: "h", Refused: 3, MissingReplicas: map[string]int{"B": 2, "A": 1}}, {Service: "detector", MissingReplicas: map[string]int{"A": 2}},
	})
	remarks := natsFindings([]status.Status{{Service: "gateway", Host: "h", Remarks: []string{"a record is not used"}}})
	if len(remarks) != 1 || remarks[0].State != Warning || remarks[0].Detail != "a record is not used (h)" || remarks[0].Mend == "" {
		t.Errorf("%+v", remarks)
	}
	if len(all) != 2 || !strings.Contains(all[0].Detail, "refused 3") || !strings.HasSuffix(all[1].Detail, ": A, B") || all[1].Mend == "" {
		t.Errorf("%+v", all)
	}
}
