package quantised_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/quantised"
)

// unit returns a random unit vector with the given share of nonzero coordinates.
func unit(r *rand.Rand, dim int, share float64) []float32 {
	v, sum := make([]float32, dim), 0.0
	for i := range v {
		if r.Float64() < share || i == 0 {
			v[i] = float32(r.NormFloat64())
			sum += float64(v[i]) * float64(v[i])
		}
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestCosinesStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	worst, bytes := 0.0, 0
	for range 2000 {
		dim := 1 + r.IntN(768)
		a := unit(r, dim, 0.2+0.8*r.Float64())
		b := unit(r, dim, 0.2+0.8*r.Float64())
		mix := r.Float32()
		for i := range b { // near and far pairs
			b[i] = mix*a[i] + (1-mix)*b[i]
		}
		length := float32(math.Sqrt(cosine(b, b)))
		for i := range b {
			b[i] /= length
		}
		v := quantised.New(b)
		if v.Dim() != dim || len(v) > max(dim, dim/8+129)+3 {
			t.Fatalf("%d coordinates in %d bytes are read as %d", dim, len(v), v.Dim())
		}
		worst = max(worst, math.Abs(v.Cosine(a)-cosine(a, b)))
		bytes += len(v)
		if same := v.Cosine(b); same < 0.9995 {
			t.Errorf("cosine %g with itself", same)
		}
	}
	if worst > 0.006 {
		t.Errorf("a cosine is off by %g", worst)
	}
}

func TestFewWordsTakeFewBytes(t *testing.T) {
	t.Parallel()
	v := make([]float32, 512)
	v[3], v[511] = 0.6, -0.8
	q := quantised.New(v)
	if len(q) != 1+2+64+4 || math.Abs(q.Cosine(v)-1) > 1e-6 {
		t.Errorf("%d bytes, cosine %g", len(q), q.Cosine(v))
	}
}

func TestWhatIsNoVectorHasNoCosine(t *testing.T) {
	t.Parallel()
	good := quantised.New([]float32{0.6, 0.8})
	for name, v := range map[string]quantised.Vector{
		"none": nil, "no length": quantised.New([]float32{0, 0}), "not finite": quantised.New([]float32{float32(math.NaN())}),
		"cut off": good[:len(good)-1], "another layout": {9, 2, 1, 1}, "no number": {1, 0xff}, "bits beyond the end": {2, 2, 0b100, 1}, "no coordinates": {1, 0}, "half a coordinate": {3, 2, 0b1, 1},
	} {
		if v.Dim() != 0 || v.Cosine([]float32{0.6, 0.8}) != 0 {
			t.Errorf("%s: %d coordinates, cosine %g", name, v.Dim(), v.Cosine([]float32{0.6, 0.8}))
		}
	}
	if good.Cosine([]float32{1}) != 0 {
		t.Error("a cosine of vectors of two lengths")
	}
}

func FuzzVector(f *testing.F) {
	f.Add([]byte(quantised.New([]float32{0.6, 0.8})))
	f.Add([]byte{2, 9, 1, 1, 5, 6})
	f.Add([]byte{1, 2, 76, 101})
	f.Fuzz(func(t *testing.T, stored []byte) {
		v := quantised.Vector(stored)
		if dim := v.Dim(); dim > 0 && dim < 1<<16 {
			with := make([]float32, dim)
			with[0] = 1
			if c := v.Cosine(with); math.IsNaN(c) || c > 1.001 || c < -1.001 {
				t.Errorf("cosine %g", c)
			}
		}
	})
}
