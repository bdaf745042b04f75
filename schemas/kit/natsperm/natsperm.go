// Package natsperm has the NATS users, one for each service and each kind of other client,
// with the least permissions that each needs.
//
// It is data from which configurations and documentation are generated. It knows no service's
// code.
package natsperm

import (
	"slices"
	"strings"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/partition"
)

// Permission has the subjects for one purpose.
type Permission struct {
	Why      string
	Subjects []string
}

// User is a NATS user with its permissions.
type User struct {
	Name, Does string
	// Reads is set for read-only users. They have an account of their own, because the server
	// answers requests of JetStream's API on any reply subject: there, no such subject leads
	// to a stream or a service.
	Reads     bool
	Publish   []Permission
	Subscribe []Permission
}

// InboxPrefix returns the prefix of a user's inboxes (--nats-inbox-prefix). Users with the
// same inboxes could read each other's answers.
func InboxPrefix(user string) string { return inboxes + user }

// MayPublish returns the subjects that the user may publish to, including those of a
// JetStream domain's API.
func (u User) MayPublish(domain string) []string {
	all := flat(u.Publish)
	if domain == "" {
		return all
	}
	for _, subject := range flat(u.Publish) {
		if call, ok := strings.CutPrefix(subject, apiPrefix); ok {
			all = append(all, "$JS."+domain+".API."+call)
		}
		if strings.HasPrefix(subject, "$KV.") {
			all = append(all, "$JS."+domain+".API."+subject)
		}
	}
	slices.Sort(all)
	return all
}

// MaySubscribe returns the subjects that the user may subscribe to.
func (u User) MaySubscribe() []string { return flat(u.Subscribe) }

// Service is a subject for requests of another account.
type Service struct {
	Subject string
	// Several is set if one request may have several answers.
	Several bool
}

// Services returns the services that the account of readers imports.
func Services(domain string) (all []Service) {
	for _, subject := range crossing(func(u User) []string { return u.MayPublish(domain) }) {
		several := slices.ContainsFunc([]string{".DIRECT.GET.", ".MSG.NEXT.", schemas.SubjectStatus, "$SRV."}, func(part string) bool { return strings.Contains(subject, part) })
		all = append(all, Service{subject, several})
	}
	return all
}

// Feeds returns the subjects of the streams that the account of readers imports.
func Feeds() []string { return crossing(User.MaySubscribe) }

// crossing returns the subjects of readers that belong to the other account.
func crossing(subjects func(User) []string) (all []string) {
	for _, u := range Users() {
		if u.Reads {
			all = append(all, subjects(u)...)
		}
	}
	all = slices.DeleteFunc(all, func(s string) bool { return strings.HasPrefix(s, inboxes) })
	slices.Sort(all)
	return slices.Compact(all)
}

func flat(all []Permission) (subjects []string) {
	for _, p := range all {
		subjects = append(subjects, p.Subjects...)
	}
	slices.Sort(subjects)
	return slices.Compact(subjects)
}

const (
	inboxes   = "_INBOX_"
	apiPrefix = "$JS.API."
	// crossings are the server's subjects for answers to another account.
	crossings = "_R_.>"
	// probe is the key of the record that tests whether a bucket takes writes.
	probe = "probe"
)

// record returns the subject of a bucket's records.
func record(bucket, key string) string { return "$KV." + bucket + "." + key }

// builder collects the permissions of a user.
type builder struct {
	User
	// partitions is the number of partitions; 0 means 1.
	partitions int
}

func begin(name, does string) *builder {
	b := &builder{User: User{Name: name, Does: does}}
	b.subscribe("read answers", InboxPrefix(name)+".>")
	return b
}

func (b *builder) publish(why string, subjects ...string) { b.Publish = with(b.Publish, why, subjects) }

func (b *builder) subscribe(why string, subjects ...string) {
	b.Subscribe = with(b.Subscribe, why, subjects)
}

// with adds subjects to the permission of the same purpose.
func with(all []Permission, why string, subjects []string) []Permission {
	i := slices.IndexFunc(all, func(p Permission) bool { return p.Why == why })
	if i < 0 {
		return append(all, Permission{why, slices.Clone(subjects)})
	}
	all[i].Subjects = append(all[i].Subjects, subjects...)
	return all
}

// records allows reading the records of a bucket without a consumer.
func (b *builder) records(buckets ...string) {
	for _, bucket := range buckets {
		b.api("read records of "+bucket, "DIRECT.GET."+kv(bucket))
	}
}

// api allows calls of JetStream's API.
func (b *builder) api(why string, calls ...string) {
	for _, call := range calls {
		b.publish(why, apiPrefix+call)
	}
}

// part allows what every running service does.
func (b *builder) part() {
	b.subscribe("report the status", schemas.SubjectStatus)
	b.answer(Notifier, Operator)
	b.api("find state of other releases", "STREAM.LIST")
	b.publish("answer requests of readers, through the server", crossings)
}

// answer allows answers to requests of users.
func (b *builder) answer(users ...string) {
	for _, user := range users {
		if !slices.Contains(flat(b.Publish), InboxPrefix(user)+".>") {
			b.publish("answer requests", InboxPrefix(user)+".>")
		}
	}
}

// micro allows the requests of the micro protocol for a service's name and statistics.
func (b *builder) micro(service string) {
	b.subscribe("be found by nats micro", "$SRV.*", "$SRV.*."+service, "$SRV.*."+service+".*")
}

// follow allows following keys of a bucket: an ordered consumer with flow control.
func (b *builder) follow(bucket string, keys ...string) {
	stream := kv(bucket)
	b.api("follow "+bucket, "STREAM.INFO."+stream, "CONSUMER.DELETE."+stream+".*")
	b.publish("follow "+bucket, "$JS.FC."+stream+".>", "$JS.FC.*.*."+stream+".>")
	for _, key := range keys {
		b.api("follow "+bucket, "CONSUMER.CREATE."+stream+".*."+record(bucket, key))
	}
}

// keep allows reading and writing the records of a bucket.
func (b *builder) keep(bucket string) {
	for _, name := range partition.Names(bucket, b.partitions) {
		b.publish("keep records in "+bucket, record(name, ">"))
		b.api("keep records in "+bucket, "STREAM.INFO."+kv(name), "STREAM.MSG.GET."+kv(name))
	}
}

// move allows moving records between partitions, if there are several.
func (b *builder) move(partitions int) {
	for _, bucket := range partition.Buckets {
		for _, name := range partition.Names(bucket, partitions) {
			if partitions > 1 {
				b.publish("move records between partitions", record(name, ">"))
				b.api("spread the leaders of partitions", "STREAM.LEADER.STEPDOWN."+kv(name))
			}
		}
	}
}

// consumer allows pulling from consumers of a stream, and creating them.
func (b *builder) consumer(stream, name, filter string) {
	why := "take messages from " + stream
	create := "CONSUMER.CREATE." + stream + "." + name
	if filter != "" {
		create += "." + filter
	}
	b.api(why, create, "CONSUMER.INFO."+stream+"."+name, "CONSUMER.MSG.NEXT."+stream+"."+name, "CONSUMER.DELETE."+stream+"."+name)
	b.acknowledge(stream, name)
}

// acknowledge allows acknowledging messages of a consumer, in both forms of subjects.
func (b *builder) acknowledge(stream, consumer string) {
	b.publish("take messages from "+stream, "$JS.ACK."+stream+"."+consumer+".>", "$JS.ACK.*.*."+stream+"."+consumer+".>")
}

// read allows reading a stream in order, without acknowledgements.
func (b *builder) read(stream string) {
	b.api("read "+stream, "STREAM.INFO."+stream, "CONSUMER.CREATE."+stream+".*", "CONSUMER.MSG.NEXT."+stream+".*", "CONSUMER.DELETE."+stream+".*")
}
