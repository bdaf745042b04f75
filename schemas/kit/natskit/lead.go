package natskit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/partition"
)

// spreadAttempts bounds the attempts to move leaders: a server may decline.
const spreadAttempts = 3

// spreadLeaders moves the leaders of each bucket's partitions so that no running server leads
// more than its share: they are elected at random.
func spreadLeaders(ctx context.Context, js jetstream.JetStream, layout Layout) error {
	for number, bucket := range partition.Buckets {
		if !layout.lists(BucketStream(bucket)) {
			continue
		}
		names := partition.Names(bucket, layout.Partitions)
		for range spreadAttempts {
			spread, err := ledEvenly(ctx, js, names)
			if err != nil {
				return err
			}
			if spread {
				break
			}
			for part, name := range names {
				if err := lead(ctx, js, BucketStream(name), part+number); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ledEvenly reports whether no server leads more of a bucket's partitions than its share.
func ledEvenly(ctx context.Context, js jetstream.JetStream, names []string) (bool, error) {
	leads, servers := map[string]int{}, 1
	for _, name := range names {
		all, leader, err := serversOf(ctx, js, BucketStream(name))
		if err != nil {
			return false, err
		}
		leads[leader], servers = leads[leader]+1, max(servers, len(all))
	}
	return slices.Max(slices.Collect(maps.Values(leads))) <= (len(names)+servers-1)/servers, nil
}

// serversOf returns the running servers that have a stream, and its leader; none without a
// cluster.
func serversOf(ctx context.Context, js jetstream.JetStream, name string) (all []string, leader string, err error) {
	stream, err := streamOf(ctx, js, name)
	if err != nil {
		return nil, "", fmt.Errorf("look who leads %s: %w", name, err)
	}
	in := stream.CachedInfo().Cluster
	if in == nil || in.Leader == "" {
		return nil, "", nil
	}
	all = append(all, in.Leader)
	for _, peer := range in.Replicas {
		if !peer.Offline {
			all = append(all, peer.Name)
		}
	}
	slices.Sort(all)
	return all, in.Leader, nil
}

// lead makes the server with a number, of those that have a stream, its leader.
func lead(ctx context.Context, js jetstream.JetStream, name string, number int) error {
	all, leader, err := serversOf(ctx, js, name)
	if err != nil || len(all) == 0 || leader == all[number%len(all)] {
		return err
	}
	wanted := all[number%len(all)]
	ask, err := json.Marshal(map[string]any{"placement": map[string]string{"preferred": wanted}})
	if err != nil {
		return err
	}
	err = patiently(ctx, func(ctx context.Context) error {
		_, err := js.Conn().RequestWithContext(ctx, APISubject(js, "STREAM.LEADER.STEPDOWN."+name), ask)
		return err
	})
	if err != nil {
		return fmt.Errorf("have %s led by %s: %w", name, wanted, err)
	}
	return caughtUp(ctx, js, name)
}
