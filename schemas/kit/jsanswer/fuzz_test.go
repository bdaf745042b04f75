package jsanswer

import "testing"

// FuzzAck reads acknowledgements twice: what the quick reader accepts, the JSON
// parser reads the same way.
func FuzzAck(f *testing.F) {
	f.Add([]byte(`{"stream":"KV_c","seq":7}`))
	f.Add([]byte(`{"stream":"KV_c", "seq":7,"duplicate":true}`))
	f.Add([]byte(`{"error":{"err_code":10071,"description":"wrong last sequence"}}`))
	f.Add([]byte(`{"message":{"seq":3,"data":"eA=="}}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		seq, err := Sequence(answer)
		if err == nil && seq == 0 {
			t.Errorf("%q is an acknowledgement without a sequence", answer)
		}
		quick, ok := plainAck(answer)
		if r, err := parse(answer); ok && err == nil && r.Error == nil && r.Seq != quick && r.Seq <= 1<<62 {
			t.Errorf("%q: %d and %d", answer, quick, r.Seq)
		}
	})
}
