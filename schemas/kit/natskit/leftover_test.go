package natskit_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas/kit/natskit"
)

// Streams that another release wrote are found; this release's own, other programs' and empty
// ones are not.
func TestStateOfAnotherReleaseIsFound(t *testing.T) {
	t.Parallel()
	js := roomy(t, 0).JetStream()
	if _, err := natskit.Prepare(t.Context(), js, natskit.Layout{Memory: true}.Everything()); err != nil {
		t.Fatal(err)
	}
	for bucket, put := range map[string]bool{"LOOP_SESSIONS_0": true, "LOOP_EMPTY": false, "OTHER": true} {
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.MemoryStorage})
		if err != nil {
			t.Fatal(err)
		}
		if put {
			if _, err := kv.Put(t.Context(), "k", []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
	}
	left, err := natskit.Leftover(t.Context(), js)
	if err != nil || len(left) != 1 || left[0].Config.Name != "KV_LOOP_SESSIONS_0" || left[0].State.Msgs != 1 {
		t.Errorf("left %+v, %v", left, err)
	}
}
