package natsconfig_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natskit"
	"github.com/unloop/unloop/schemas/kit/natsperm"
)

// Subjects of records that operators put into force.
const (
	bundleRecord = "$KV." + schemas.BucketPolicies + "." + schemas.KeyBundle
	keyRecord    = "$KV." + schemas.BucketPolicies + "." + schemas.KeyCallerHash
	blockRecord  = "$KV." + schemas.BucketOverrides + ".block.tenant.acme"
)

// targets are reply subjects that would write a record or act.
func targets() []string {
	all := []string{
		bundleRecord, keyRecord, blockRecord, "loop.detected.a.b", "loop.audit.release", "loop.deadletter.x",
		schemas.SubjectRelease, schemas.SubjectForget, schemas.SubjectCooldown, schemas.SubjectBeat, schemas.SubjectOutcome,
	}
	for _, stream := range (natskit.Layout{}).Everything().Streams() {
		if bucket, ok := strings.CutPrefix(stream, "KV_"); ok {
			all = append(all, "$KV."+bucket+".attack")
		}
	}
	return all
}

// requests are the requests that a user may send, as literal subjects.
func requests(u natsperm.User) (all []string) {
	literal := strings.NewReplacer("loop.detected.>", "loop.detected.t.p", "*", "x", ">", "x")
	for _, subject := range u.MayPublish("") {
		if strings.HasPrefix(subject, "$JS.") || strings.HasPrefix(subject, "$SRV.") || subject == schemas.SubjectStatus {
			all = append(all, literal.Replace(subject))
		}
	}
	return all
}

// written returns the last sequence of each stream.
func (in *installation) written() map[string]uint64 {
	in.t.Helper()
	if in.operator == nil {
		in.operator = in.jetstream(natsperm.Operator)
	}
	all := map[string]uint64{}
	list := in.operator.ListStreams(in.t.Context())
	for info := range list.Info() {
		all[info.Config.Name] = info.State.LastSeq
	}
	if err := list.Err(); err != nil {
		in.t.Fatal(err)
	}
	return all
}

// attack has the server answer each request of a user on each target. It returns once the
// server has answered several on the user's own subject, among them the last one.
func (in *installation) attack(user string, requests []string, on []string) {
	in.t.Helper()
	nc := in.jetstream(user).Conn()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox + ".>")
	if err != nil {
		in.t.Fatal(err)
	}
	for i, request := range requests { // some of them no stream answers
		for _, body := range []string{"", `{"seq":1}`} {
			for _, reply := range append(slices.Clone(on), fmt.Sprintf("%s.%d%d", inbox, i, len(body))) {
				if err := nc.PublishRequest(request, reply, []byte(body)); err != nil {
					in.t.Fatal(err)
				}
			}
		}
	}
	last := inbox + ".last"
	info := slices.IndexFunc(requests, func(subject string) bool { return strings.HasPrefix(subject, "$JS.API.STREAM.INFO.") })
	if err := nc.PublishRequest(requests[info], last, nil); err != nil {
		in.t.Fatal(err)
	}
	seen, done := 0, false // the server may answer the last request before others
	in.await(user+" is answered several times", func() bool {
		msg, err := answers.NextMsg(patience)
		if errors.Is(err, nats.ErrNoResponders) {
			return false
		}
		if err != nil {
			in.t.Fatal(err)
		}
		if !strings.Contains(string(msg.Data), `"error"`) {
			seen++
		}
		done = done || msg.Subject == last
		return done && seen >= 3 // fewer would test nothing
	})
}

// The server answers requests on any subject that they name, with rights of its own. What
// readers name is in an account of their own: nothing is written, and no service hears of it.
func TestAReaderWritesNothingThroughReplySubjects(t *testing.T) {
	t.Parallel()
	in := install(t, 1, nil)
	in.prepare(1)
	detector := in.jetstream(natsperm.Detector)
	if _, err := detector.Publish(t.Context(), "loop.detected.t.p", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for _, heard := range []string{schemas.SubjectRelease, schemas.SubjectForget, schemas.SubjectOutcome} {
		_, err := detector.Conn().Subscribe(heard, func(m *nats.Msg) { t.Errorf("%s was heard, %d bytes", m.Subject, len(m.Data)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := detector.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	before := in.written()
	for _, u := range natsperm.Users() {
		if u.Name == natsperm.Subscriber || u.Name == natsperm.Monitor {
			in.attack(u.Name, requests(u), targets())
		}
	}
	if after := in.written(); !maps.Equal(after, before) {
		t.Errorf("readers wrote: the streams end at %v, before at %v", after, before)
	}
	if err := detector.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
}
