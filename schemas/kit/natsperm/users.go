package natsperm

import (
	"strings"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/event"
	"github.com/unloop/unloop/schemas/finding"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// Names of the users.
const (
	Gateway     = "gateway"
	Detector    = "detector"
	Embedworker = "embedworker"
	Notifier    = "notifier"
	Subscriber  = "subscriber"
	Operator    = "operator"
	Monitor     = "monitor"
)

// Users returns all users of both accounts, for buckets with one partition.
func Users() []User { return UsersOf(1) }

// UsersOf is Users for another number of partitions (package partition).
func UsersOf(partitions int) []User {
	return []User{gatewayUser(), detectorUser(partitions), embedworkerUser(partitions), notifierUser(), subscriberUser(), operatorUser(partitions), monitorUser()}
}

// Names returns the names of all users.
func Names() (all []string) {
	for _, u := range Users() {
		all = append(all, u.Name)
	}
	return all
}

func kv(bucket string) string { return "KV_" + bucket }

// streams are all streams of Unloop; partitioned returns them with their partitions.
var streams = []string{
	schemas.StreamEvents, schemas.StreamDeadLetters, schemas.StreamAudit, kv(schemas.BucketCounters), kv(schemas.BucketBlocks), kv(schemas.BucketIncidents), kv(schemas.BucketTimers),
	kv(schemas.BucketSessions), kv(schemas.BucketLimits), kv(schemas.BucketBudgets), kv(schemas.BucketPolicies), kv(schemas.BucketOverrides), kv(schemas.BucketSilences),
	kv(schemas.BucketNotifications), kv(schemas.BucketDeliveries), kv(schemas.BucketVectors),
}

func partitioned(partitions int) (all []string) {
	for _, stream := range streams {
		bucket, isBucket := strings.CutPrefix(stream, kv(""))
		if !isBucket {
			all = append(all, stream)
			continue
		}
		for _, name := range partition.Names(bucket, partitions) {
			all = append(all, kv(name))
		}
	}
	return all
}

// events are the subjects of the events of loops.
var events = []string{string(event.Detected) + ".>", string(event.Ongoing) + ".>", string(event.Resolved) + ".>"}

func gatewayUser() User {
	b := begin(Gateway, "A gateway: asks detectors, follows policies and overrides, remembers answers.")
	b.publish("ask detectors, and report what failed", schemas.SubjectCheck, schemas.SubjectCheck+".*", schemas.SubjectOutcome, schemas.SubjectOutcome+".*")
	b.subscribe("learn of blocks, releases and detectors", schemas.SubjectCooldown, schemas.SubjectForget, schemas.SubjectBeat)
	b.publish("tell the other gateways of hints that no model got", schemas.SubjectOwed)
	b.subscribe("learn of hints that no model got", schemas.SubjectOwed)
	b.follow(schemas.BucketPolicies, schemas.KeyBundle, schemas.KeyCallerHash)
	b.follow(schemas.BucketOverrides, ">")
	b.records(schemas.BucketPolicies, schemas.BucketOverrides)
	b.subscribe("learn of policies and overrides", record(schemas.BucketPolicies, schemas.KeyBundle), record(schemas.BucketPolicies, schemas.KeyCallerHash), record(schemas.BucketOverrides, ">"))
	b.api("see its answers' bucket", "STREAM.INFO."+kv(schemas.BucketSessions))
	for _, key := range []string{schemas.AnswerKey("*"), schemas.AnswerCallsKey("*"), schemas.AnswerAskerKey("*"), schemas.AnswerFinishedKey("*")} {
		b.publish("remember answers and their calls", record(schemas.BucketSessions, key))
		b.api("look answers up", "DIRECT.GET."+kv(schemas.BucketSessions)+"."+record(schemas.BucketSessions, key))
	}
	b.publish("try a write", record(schemas.BucketSessions, probe))
	b.part()
	return b.User
}

func detectorUser(partitions int) User {
	b := begin(Detector, "A detector: decides, and keeps counters, sessions, limits, blocks and incidents.")
	b.partitions = partitions
	b.subscribe("take checks, outcomes and releases", schemas.SubjectCheck, schemas.SubjectCheck+".*", schemas.SubjectOutcome, schemas.SubjectOutcome+".*", schemas.SubjectRelease)
	b.subscribe("know the other detectors, and take what they hand over", schemas.SubjectBeat, schemas.SubjectDetectors+".*")
	b.subscribe("forget what was released, and learn blocks of other detectors", schemas.SubjectForget, record(schemas.BucketBlocks, ">"))
	b.subscribe("end the loops of circuit breakers that an operator deletes", record("*", "rule.*.*."+finding.CircuitBreaker+".*"))
	b.publish("announce itself, and hand over", schemas.SubjectBeat, schemas.SubjectDetectors+".*")
	b.publish("announce blocks and releases", schemas.SubjectCooldown, schemas.SubjectForget)
	b.publish("ask embedding workers", schemas.SubjectSemantic)
	b.publish("record events", events...)
	for _, bucket := range []string{schemas.BucketCounters, schemas.BucketSessions, schemas.BucketLimits, schemas.BucketBudgets, schemas.BucketBlocks, schemas.BucketIncidents} {
		b.keep(bucket)
	}
	b.api("remove released records", "STREAM.PURGE."+kv(schemas.BucketCounters), "STREAM.PURGE."+kv(schemas.BucketBlocks))
	b.follow(schemas.BucketBlocks, ">")
	b.follow(schemas.BucketIncidents, ">")
	b.publish("set timers of loops", record(schemas.BucketTimers, ">"))
	b.follow(schemas.BucketTimers, ">")
	b.api("find loops by their ids", "STREAM.MSG.GET."+kv(schemas.BucketTimers))
	b.api("remove timers that have expired", "STREAM.MSG.DELETE."+kv(schemas.BucketTimers))
	b.consumer(kv(schemas.BucketTimers), schemas.DurableResolver, record(schemas.BucketTimers, ">"))
	for _, stream := range partitioned(partitions) {
		b.api("measure streams", "STREAM.INFO."+stream)
	}
	b.api("measure streams", "STREAM.LIST")
	b.micro("unloop-detector")
	b.answer(Gateway, Detector)
	b.part()
	return b.User
}

func embedworkerUser(partitions int) User {
	b := begin(Embedworker, "An embedding worker: compares texts, and keeps their vectors.")
	b.partitions = partitions
	b.subscribe("take texts", schemas.SubjectSemantic)
	b.keep(schemas.BucketVectors)
	b.api("ask for the server's time and the partitions", "STREAM.INFO."+kv(schemas.BucketCounters))
	b.micro("unloop-embedworker")
	b.answer(Detector)
	b.part()
	return b.User
}

func notifierUser() User {
	b := begin(Notifier, "A notifier: delivers events, and serves the dashboard with its buttons.")
	b.api("see the stream of events", "STREAM.INFO."+schemas.StreamEvents)
	b.consumer(schemas.StreamEvents, "*", "")
	for _, bucket := range []string{schemas.BucketNotifications, schemas.BucketDeliveries} {
		b.keep(bucket)
		b.follow(bucket, ">")
	}
	b.publish("give messages up", schemas.SubjectDeadLetter+".*")
	b.api("see the stream of dead letters", "STREAM.INFO."+schemas.StreamDeadLetters)
	b.subscribe("take requests of operators, and learn of releases", schemas.SubjectResend, schemas.SubjectTestSend, schemas.SubjectEnable, schemas.SubjectForget)
	b.follow(schemas.BucketIncidents, ">")
	b.follow(schemas.BucketSilences, ">")
	b.follow(schemas.BucketOverrides, ">")
	b.follow(schemas.BucketPolicies, schemas.KeyBundle)
	b.records(schemas.BucketPolicies, schemas.BucketOverrides)
	b.subscribe("show policies and overrides", record(schemas.BucketPolicies, schemas.KeyBundle), record(schemas.BucketOverrides, ">"))
	b.publish("do what the dashboard's buttons say", schemas.SubjectRelease, schemas.SubjectResend, schemas.SubjectTestSend, schemas.SubjectEnable,
		record(schemas.BucketSilences, "*"), schemas.SubjectAudit+".>")
	b.read(schemas.StreamAudit)
	b.publish("show the parts", schemas.SubjectStatus)
	b.api("show the streams", "STREAM.LIST")
	b.micro("unloop-notifier")
	b.answer(Notifier)
	b.part()
	return b.User
}

func subscriberUser() User {
	b := begin(Subscriber, "A program that follows the events of loops, and lists open ones.")
	b.Reads = true
	b.subscribe("follow events", events...)
	b.api("read stored events", "STREAM.INFO."+schemas.StreamEvents, "DIRECT.GET."+schemas.StreamEvents, "STREAM.MSG.GET."+schemas.StreamEvents)
	b.records(schemas.BucketIncidents)
	for _, subject := range events {
		b.api("read stored events", "DIRECT.GET."+schemas.StreamEvents+"."+subject)
	}
	b.api("pull from the durable consumer of this name, which an operator creates", "CONSUMER.INFO."+schemas.StreamEvents+"."+Subscriber,
		"CONSUMER.MSG.NEXT."+schemas.StreamEvents+"."+Subscriber)
	b.acknowledge(schemas.StreamEvents, Subscriber)
	return b.User
}

func operatorUser(partitions int) User {
	b := begin(Operator, "The command line: policies, blocks, releases, silences; creates, backs up and restores streams.")
	b.publish("release loops, ask notifiers, ask for the status, explain decisions", schemas.SubjectRelease, schemas.SubjectResend, schemas.SubjectTestSend,
		schemas.SubjectEnable, schemas.SubjectStatus, schemas.SubjectCheck, schemas.SubjectCheck+".*")
	b.publish("push policies, and the key that callers are hashed with", record(schemas.BucketPolicies, schemas.KeyBundle), record(schemas.BucketPolicies, schemas.KeyCallerHash))
	b.publish("set blocks, exemptions and silences", record(schemas.BucketOverrides, ">"), record(schemas.BucketSilences, "*"))
	for _, bucket := range []string{schemas.BucketLimits, schemas.BucketBudgets} {
		for _, name := range partition.Names(bucket, partitions) {
			b.publish("start what rules count anew", record(name, ">"))
		}
	}
	b.move(partitions)
	b.publish("record what was done", schemas.SubjectAudit+".>")
	b.subscribe("follow events", events...)
	for _, stream := range partitioned(partitions) {
		for _, call := range []string{"INFO", "CREATE", "UPDATE", "DELETE", "SNAPSHOT", "RESTORE"} {
			b.api("create, change, back up and restore streams", "STREAM."+call+"."+stream)
		}
		b.consumer(stream, "*", "")
		b.api("read records", "CONSUMER.CREATE."+stream+".*.>", "STREAM.MSG.GET."+stream, "DIRECT.GET."+stream, "DIRECT.GET."+stream+".>")
		b.publish("follow records", "$JS.FC."+stream+".>", "$JS.FC.*.*."+stream+".>")
	}
	b.api("make room for policies and overrides", "STREAM.MSG.DELETE."+kv(schemas.BucketPolicies), "STREAM.MSG.DELETE."+kv(schemas.BucketOverrides))
	b.publish("back up and restore streams", "$JS.SNAPSHOT.>")
	b.api("see the account and its streams", "INFO", "STREAM.LIST", "STREAM.NAMES", "CONSUMER.LIST.*", "CONSUMER.NAMES.*")
	b.publish("see services and their statistics", "$SRV.>")
	return b.User
}

func monitorUser() User {
	b := begin(Monitor, "A monitor: the status of the parts, services, streams and consumers, open loops, blocks and exemptions.")
	b.Reads = true
	b.publish("ask for the status, services and their statistics", schemas.SubjectStatus, "$SRV.>")
	b.api("see the account, its streams and consumers", "INFO", "STREAM.LIST", "STREAM.NAMES", "STREAM.INFO.*", "CONSUMER.LIST.*", "CONSUMER.NAMES.*", "CONSUMER.INFO.*.*")
	b.records(schemas.BucketIncidents, schemas.BucketOverrides)
	b.subscribe("follow advisories", "$JS.EVENT.ADVISORY.>")
	return b.User
}
