package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
)

// Domains of the digests of tool calls. A number is raised when the meaning changes; until
// stored sessions have expired, old and new digests then count separately.
const (
	domainCall = "unloop/call/3"
	// DomainResult is the domain of results. The fields are the cleaned text or, for a long
	// one, its beginning, its end and its length.
	DomainResult = "unloop/result/2"
)

// Call returns the digest of a tool call: of the tool's name and the canonical digest
// of its arguments. Call ids have no part in it.
func Call(tool string, arguments Digest) Digest {
	var space [128]byte
	b := AppendField(AppendField(space[:0], []byte(domainCall)), []byte(tool))
	return Sum(AppendField(b, arguments[:]))
}

// EmptyResult returns the digest of a result without text.
func EmptyResult() Digest {
	return Sum(AppendField(AppendField(nil, []byte(DomainResult)), nil))
}

// AppendField appends a field as [Builder.Bytes] hashes it: after its length in 8
// bytes.
func AppendField(dst, field []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(field)))
	return append(dst, field...)
}

// Sum returns the digest of a domain and fields that [AppendField] appended, which is
// that of a [Builder] with these fields.
func Sum(fields []byte) Digest {
	h := sha256.Sum256(fields)
	return Digest(h[:16])
}
