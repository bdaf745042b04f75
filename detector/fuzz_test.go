package detector_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// FuzzMessages sends whatever a peer may send to each of the detector's
// handlers; it must then still decide.
func FuzzMessages(f *testing.F) {
	s := natstest.Start(f)
	startDetector(f, s)
	nc := s.Conn()
	seed, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{promptCheck("a")}, BudgetMs: 50})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Add([]byte("\x0a\xff\xff\xff\xff\x0f"))
	f.Add([]byte{0x12, 0x00, 0x0a, 0x02, 0x2a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, subject := range []string{schemas.SubjectCheck, schemas.SubjectRelease, schemas.SubjectOutcome, schemas.SubjectForget, schemas.SubjectCooldown, schemas.SubjectBeat} {
			if err := nc.Publish(subject, data); err != nil {
				t.Fatal(err)
			}
		}
		if got := ask(t, nc, promptCheck(string(data))); len(got) != 1 {
			t.Errorf("%d decisions", len(got))
		}
	})
}
