package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
)

// overrides are what operators block and exempt at once, by key. The map is
// replaced as a whole; only the follower writes.
type overrides struct {
	log     *slog.Logger
	current atomic.Pointer[map[string]schemas.Override]
}

func newOverrides(log *slog.Logger) *overrides {
	o := &overrides{log: log}
	o.current.Store(&map[string]schemas.Override{})
	return o
}

// find is the override of an action that a request falls under at that time.
func (o *overrides) find(action schemas.OverrideAction, id *checkpb.Identity, now time.Time) (schemas.Override, bool) {
	all := *o.current.Load()
	if len(all) == 0 {
		return schemas.Override{}, false
	}
	for _, scope := range []struct {
		name  schemas.OverrideScope
		value string
	}{
		{schemas.ScopeSession, id.GetSession()}, {schemas.ScopeCaller, id.GetCaller()},
		{schemas.ScopeTenant, id.GetTenant()}, {schemas.ScopeProject, id.GetProject()},
	} {
		if scope.value == "" {
			continue
		}
		wanted := schemas.Override{Action: action, Scope: scope.name, Value: scope.value}
		if found, ok := all[wanted.Key()]; ok && now.Before(found.ExpiresAt) {
			return found, true
		}
	}
	return schemas.Override{}, false
}

func (o *overrides) reset(entries []jetstream.KeyValueEntry) {
	all := map[string]schemas.Override{}
	for _, entry := range entries {
		o.apply(all, entry)
	}
	o.current.Store(&all)
}

func (o *overrides) update(entry jetstream.KeyValueEntry) {
	all := maps.Clone(*o.current.Load())
	o.apply(all, entry)
	o.current.Store(&all)
}

// apply takes an entry into a map. What can't be read, or stands under another
// key than its own, overrides nothing.
func (o *overrides) apply(all map[string]schemas.Override, entry jetstream.KeyValueEntry) {
	delete(all, entry.Key())
	if entry.Operation() != jetstream.KeyValuePut {
		return
	}
	var read schemas.Override
	if err := json.Unmarshal(entry.Value(), &read); err != nil || read.Key() != entry.Key() {
		o.log.Error("override not used: it can't be read", "key", entry.Key(), "error", err)
		return
	}
	all[entry.Key()] = read
}

func (g *Gateway) followOverrides(ctx context.Context, loaded func()) error {
	return g.followBucket(ctx, schemas.BucketOverrides, ">", g.overrides, loaded)
}
