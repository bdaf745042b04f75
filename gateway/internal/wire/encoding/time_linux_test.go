package encoding_test

import (
	"bytes"
	"compress/gzip"
	"math"
	"testing"

	"github.com/unloop/unloop/gateway/internal/share/bytetime"
	"github.com/unloop/unloop/gateway/internal/wire/encoding"
)

// Compressed bodies are decoded in one pass, whatever they are compressed from and made of.
// The test runs alone, since it measures.
func TestTheTimeForEachByteOfACompressedBodyIsBounded(t *testing.T) {
	honest := bytetime.Repeated("", "", map[string]string{
		"prose": "The quick brown fox jumps over the lazy dog. ", "json": `{"role":"user","content":"a"},`, "code": "\tif err != nil {\n\t\treturn err\n\t}\n",
	})
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	stored := make([]byte, 0, 6<<10) // a member of blocks without content
	stored = append(stored, member.Bytes()[:10]...)
	stored = append(stored, bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1<<10)...)
	for coding, hostile := range map[string]map[string]string{
		"gzip": {"empty members": member.String(), "empty blocks": string(append(stored, member.Bytes()[10:]...)), "magic": "\x1f\x8b", "nothing": "\x00"},
		"br":   {"empty blocks": "\x06", "nothing": "\x00", "ones": "\xff", "uncompressed": "\x0b\x02\x80a"},
		"zstd": {"empty frames": "\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00", "skipped frames": "\x50\x2a\x4d\x18\x00\x00\x00\x00", "skipped bytes": "\x50\x2a\x4d\x18\x01\x00\x00\x00a", "nothing": "\x00"},
	} {
		t.Run(coding, func(t *testing.T) {
			decode := func(body []byte) int {
				text, err := encoding.Decode(coding, body, math.MaxInt32, plenty)
				if err != nil {
					return len(body)
				}
				return len(body) + len(text)
			}
			compressed := map[string]bytetime.Sample{}
			for name, s := range honest {
				compressed[name] = func(size int) []byte { return compress(t, coding, s(size)) }
			}
			bytetime.Check(t, decode, compressed, bytetime.Repeated("", "", hostile))
			twice := func(body []byte) int {
				if text, err := encoding.Decode(coding+", "+coding, body, math.MaxInt32, plenty); err == nil {
					return len(body) + len(text)
				}
				return len(body)
			}
			for name, s := range compressed {
				compressed[name] = func(size int) []byte { return compress(t, coding, s(size)) }
			}
			bytetime.Check(t, twice, compressed, map[string]bytetime.Sample{"spaces": func(size int) []byte {
				return compress(t, coding, compress(t, coding, bytes.Repeat([]byte(" "), size)))
			}})
		})
	}
}
