package operator_test

import (
	"context"
	"sync"
	"testing"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/natstest"
	"github.com/unloop/unloop/schemas/kit/operator"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// A flood of records under the key of the bundle, which takes the room that is made, does
// not keep an operator from storing one.
func TestAFloodOnAKeyDoesNotKeepAnOperatorFromStoring(t *testing.T) {
	t.Parallel()
	seed, _, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	by, err := seal.NewSigner(seed)
	if err != nil {
		t.Fatal(err)
	}
	s := natstest.Start(t)
	flooding, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	full := make(chan struct{})
	told := sync.OnceFunc(func() { close(full) })
	for range 4 {
		js := s.JetStream()
		flood.Go(func() {
			for flooding.Err() == nil {
				if _, err := js.Publish(flooding, "$KV."+schemas.BucketPolicies+"."+schemas.KeyBundle, []byte("forged")); err != nil {
					told()
				}
			}
		})
	}
	<-full
	for i := range 5 {
		if _, err := operator.Store(t.Context(), s.JetStream(), by, schemas.BucketPolicies, schemas.KeyBundle, []byte("bundle"), 0); err != nil {
			t.Errorf("record %d: %v", i+1, err)
		}
	}
	stop()
	flood.Wait()
}
