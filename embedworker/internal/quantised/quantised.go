// Package quantised encodes unit vectors with a byte for each coordinate, or two if few are not
// 0, and computes cosines without decoding them.
//
// The error of the cosines of real texts is 0.0003 on average and 0.0025 at most, because the
// errors of many coordinates cancel each other.
package quantised

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Vector is an encoded vector: a byte for the layout, the number of coordinates as a varint, and
// the coordinates as multiples of a unit, which follows from the length of 1. An empty Vector
// is none.
type Vector []byte

// The layouts. A number never changes its meaning.
const (
	// dense has a signed byte for each coordinate.
	dense = 1
	// sparse has a bit for each coordinate, the lowest of each byte first, and a signed
	// byte for each coordinate whose bit is set.
	sparse = 2
	// fine is sparse with two bytes, little-endian, for each coordinate.
	fine = 3
)

// few is the largest number of coordinates that are encoded in two bytes each, since their errors
// may not cancel out.
const few = 64

// New encodes a vector in the shortest layout that is exact enough. It returns nil for a vector
// that is zero or not finite.
func New(v []float32) Vector {
	most, set := float32(0), 0
	for _, x := range v {
		if most = max(most, abs(x)); x != 0 {
			set++
		}
	}
	switch {
	case most == 0 || math.IsInf(float64(most), 0) || math.IsNaN(float64(most)):
		return nil
	case set <= few:
		return appendSparse(begin(fine, len(v)), v, math.MaxInt16/most)
	}
	unit := math.MaxInt8 / most
	head := begin(sparse, len(v))
	if out := appendSparse(head, v, unit); len(out) < len(head)+len(v) {
		return out
	}
	out := head
	out[0] = dense
	for _, x := range v {
		out = append(out, byte(rounded(x, unit)))
	}
	return out
}

func begin(layout byte, dim int) Vector {
	return binary.AppendUvarint(append(make(Vector, 0, 4+dim), layout), uint64(dim))
}

// rounded returns x in units, at most 2^22, rounded half to even: the addition of a number
// whose last place is 1 rounds the sum.
func rounded(x, unit float32) int {
	const ones = 3 << 22
	return int(float32(x*unit) + ones - ones)
}

func abs(x float32) float32 { return max(x, -x) }

// appendSparse appends the coordinates in the layout that out begins with.
func appendSparse(out Vector, v []float32, unit float32) Vector {
	start := len(out)
	out = append(out, make([]byte, (len(v)+7)/8)...)
	for i, x := range v {
		if x == 0 {
			continue
		}
		q := rounded(x, unit)
		if q == 0 {
			continue
		}
		out[start+i/8] |= 1 << (i % 8)
		if out[0] == fine {
			out = binary.LittleEndian.AppendUint16(out, uint16(int16(q)))
		} else {
			out = append(out, byte(q))
		}
	}
	return out
}

// Dim returns the number of coordinates; 0 if v is not valid.
func (v Vector) Dim() int {
	dim, _ := v.parse()
	return dim
}

// parse returns the number of coordinates and their bytes; 0 if v is not valid.
func (v Vector) parse() (dim int, body []byte) {
	if len(v) == 0 {
		return 0, nil
	}
	n, size := binary.Uvarint(v[1:])
	if size <= 0 || n == 0 || n > math.MaxInt32 {
		return 0, nil
	}
	dim, body = int(n), v[1+size:]
	switch v[0] {
	case dense:
		if len(body) == dim {
			return dim, body
		}
	case sparse, fine:
		mask := (dim + 7) / 8
		if len(body) >= mask && len(body) == mask+ones(body[:mask])*width(v[0]) && body[mask-1]>>((dim-1)%8) <= 1 {
			return dim, body
		}
	}
	return 0, nil
}

// width returns the number of bytes of a coordinate.
func width(layout byte) int {
	if layout == fine {
		return 2
	}
	return 1
}

func ones(mask []byte) (n int) {
	for _, b := range mask {
		n += bits.OnesCount8(b)
	}
	return n
}

// Cosine returns the cosine with a unit vector; 0 if that has another number of coordinates.
func (v Vector) Cosine(with []float32) float64 {
	dim, body := v.parse()
	if dim == 0 || dim != len(with) {
		return 0
	}
	var dot float32
	var norm int
	if v[0] == dense {
		for i, b := range body {
			q := int8(b)
			dot += float32(q) * with[i]
			norm += int(q) * int(q)
		}
	} else {
		dot, norm = sparseDot(body[:(dim+7)/8], body[(dim+7)/8:], with, width(v[0]))
	}
	if norm == 0 {
		return 0
	}
	return float64(dot) / math.Sqrt(float64(norm))
}

func sparseDot(mask, values []byte, with []float32, width int) (dot float32, norm int) {
	for i, b := range mask {
		for ; b != 0; b &= b - 1 {
			q := int(int8(values[0]))
			if width == 2 {
				q = int(int16(binary.LittleEndian.Uint16(values)))
			}
			values = values[width:]
			dot += float32(q) * with[8*i+bits.TrailingZeros8(b)]
			norm += q * q
		}
	}
	return dot, norm
}
