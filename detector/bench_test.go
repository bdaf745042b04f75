package detector_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/kit/natstest"
)

// BenchmarkCheck measures one check over NATS, with the server and the client in the
// same process. The processor time of the whole process says more than the elapsed
// time on a machine with other work.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name     string
		inFlight int
		check    func(i int) *checkpb.Check
	}{
		{"counter", 1, func(i int) *checkpb.Check { return promptCheck(fmt.Sprint(i)) }},
		{"counter", 64, func(i int) *checkpb.Check { return promptCheck(fmt.Sprint(i)) }},
		{"everything", 64, everything},
		{"blocked", 64, func(int) *checkpb.Check { return promptCheck("again") }},
	} {
		b.Run(fmt.Sprint(c.name, "/", c.inFlight), func(b *testing.B) {
			s := natstest.Start(b)
			startDetector(b, s)
			nc := s.Conn()
			var n atomic.Int64
			b.SetParallelism(c.inFlight)
			began := processorTime(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					body, err := proto.Marshal(&checkpb.CheckBatch{Checks: []*checkpb.Check{c.check(int(n.Add(1)))}, BudgetMs: 1000})
					if err != nil {
						b.Error(err)
					}
					if _, err := nc.Request(schemas.SubjectCheck, body, patience); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// everything is a check with two counters, a rule and a tool watch.
func everything(i int) *checkpb.Check {
	check := promptCheck(fmt.Sprint(i))
	check.Counters = append(check.Counters, promptCheck(fmt.Sprint("request ", i)).GetCounters()...)
	check.Watches = toolCheck(round(i, "read", fmt.Sprint(i))).GetWatches()
	check.Limits = limited(func(l *checkpb.Limit) { l.Bucket.Capacity = 1e9 }).GetLimits()
	return check
}

// processorTime is the processor time of the process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
