package transcript_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unloop/unloop/gateway/internal/provider/transcript"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/message"
	"github.com/unloop/unloop/gateway/internal/provider/transcript/rounds"
	"github.com/unloop/unloop/schemas/fingerprint"
)

// all is everything that is read of a conversation.
type all struct {
	Tail               []message.Digests
	Items              []rounds.Item
	Before             fingerprint.Digest
	Agent, Opening     fingerprint.Digest
	Beginning, Recent  fingerprint.Digest
	Said, Answered     string
	Newest             uint64
	Earlier            []uint64
	Rounds, Messages   int
	HasTools, HasStray bool
}

func read(t *transcript.Transcript) (a all) {
	a.Tail, a.Agent, a.Opening, a.Beginning, a.Recent = t.Tail(), t.Agent(), t.Opening(), t.Beginning(), t.Recent(3)
	a.Items, a.Before = t.History(rounds.Rules{})
	a.Said, a.Answered = t.Exchange(1 << 10)
	a.Newest, a.Earlier = t.Digests()
	a.Rounds, a.Messages, a.HasTools, a.HasStray = t.Rounds(), t.Messages(), t.HasTools(), t.Strays()
	return a
}

// talk returns a conversation of so many rounds, which differs from others by its name.
func talk(name string, n int) *transcript.Transcript {
	t := transcript.New(transcript.Options{Tail: 3, Items: 8, Exchanges: 4})
	t.Offer([]byte("f"))
	say(t, message.System, text("You help "+name))
	say(t, message.User, text("Please, "+name+", "+strings.Repeat("do it. ", n)))
	for i := range n {
		say(t, message.Assistant, text(fmt.Sprint("round ", i, name)), call(fmt.Sprint(name, i)))
		answer(t, fmt.Sprint(name, i), fmt.Sprint("result ", i, " of ", name))
	}
	return t
}

// A conversation that is over leaves its memory to others, which read the same as with
// memory of their own, and is empty itself.
func TestConversationsUseTheMemoryOfThoseThatAreOver(t *testing.T) {
	t.Parallel()
	want := map[int]all{}
	for n := range 24 {
		want[n] = read(talk(fmt.Sprint("agent ", n), n)) // never freed
	}
	var running sync.WaitGroup
	for worker := range 4 {
		running.Go(func() {
			for i := range 12 {
				n := (i*7 + worker) % 24
				tr := talk(fmt.Sprint("agent ", n), n)
				if diff := cmp.Diff(want[n], read(tr)); diff != "" {
					t.Errorf("conversation of %d rounds (-own memory +used again):\n%s", n, diff)
				}
				tr.Free()
				tr.Free() // once is enough
				if left := read(tr); left.HasTools || left.Said != "" || len(left.Items) > 0 || len(left.Tail) > 0 || left.Messages > 0 {
					t.Errorf("what is over still has %+v", left)
				}
			}
		})
	}
	running.Wait()
	var none *transcript.Transcript
	none.Free()
}
