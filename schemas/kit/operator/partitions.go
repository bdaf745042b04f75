package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// ErrOldParts means that parts of a release without partitions are running.
var ErrOldParts = errors.New("parts run whose release knows no partitions and would count apart")

// spreads are the services that keep state in partitioned buckets.
var spreads = []string{"detector", "embedworker"}

// looks is how often parts are asked: a busy one may answer too late.
const looks = 3

// KnowPartitions returns an ErrOldParts that names the running parts without support for
// partitions.
func KnowPartitions(ctx context.Context, nc *nats.Conn) error {
	old := map[string]string{}
	for range looks {
		for _, p := range Parts(ctx, nc) {
			if slices.Contains(spreads, p.Service) && p.Partitions == 0 {
				old[p.ID] = strings.TrimSpace(fmt.Sprintf("%s %s on %s", p.Service, p.Version, p.Host))
			}
		}
	}
	if len(old) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: replace them by this release first", ErrOldParts, strings.Join(slices.Sorted(maps.Values(old)), ", "))
}
