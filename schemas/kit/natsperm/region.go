package natsperm

import "github.com/unloop/unloop/schemas"

// Link returns the user with which a region's servers connect to the origin's as leaf nodes.
// It publishes what leaves the region and subscribes to what enters it. The names of regions
// are those of their JetStream domains.
func Link(region, origin string) User {
	b := &builder{User: User{Name: "region-" + region, Does: "The servers of the region " + region + ": mirror policies and overrides, and hand over events and the audit."}}
	for _, bucket := range schemas.MirroredBuckets {
		stream := kv(bucket)
		api := "$JS." + origin + ".API.CONSUMER."
		b.publish("mirror what operators push and set", api+"CREATE."+stream, api+"CREATE."+stream+".*", api+"DELETE."+stream+".*", "$JS.FC."+stream+".>", "$JS.FC.*.*."+stream+".>")
	}
	b.publish("hand over events and the audit", schemas.RegionSubject(region)+".S.>")
	b.publish("answer the origin's servers", replies)
	b.subscribe("mirror what operators push and set", schemas.RegionSubject(region)+".M.>", replies)
	b.subscribe("let the origin copy events and the audit", "$JS."+region+".API.>")
	for _, stream := range schemas.CollectedStreams {
		b.subscribe("let the origin copy events and the audit", "$JS.FC."+stream+".>", "$JS.FC.*.*."+stream+".>")
	}
	return b.User
}

// replies are the reply subjects of servers' requests for consumers.
const replies = "$JSC.R.>"
