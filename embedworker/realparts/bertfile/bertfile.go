// Package bertfile writes BERT encoders as ONNX files with seeded random
// weights. Their speed and their agreement with other runtimes are those of a
// trained model; what they mean is nothing. Tests and benchmarks use it where
// no trained model may be fetched.
package bertfile

import (
	"fmt"
	"math"
)

// Version changes whenever Encode would write another file for a shape.
const Version = 2

// Shape is the size of an encoder.
type Shape struct {
	Width, Layers, Heads, Inner, Vocabulary, Positions int
	// Int8 stores the linear layers as 8-bit integers and quantizes their
	// inputs as they come, as the published int8 builds do.
	Int8 bool
	// Pooled ends with one vector a row, the mean over all positions, as
	// sentence_embedding.
	Pooled bool
	// NoSegments leaves out the input token_type_ids, as DistilBERT does.
	NoSegments bool
}

// Encode returns the ONNX file: inputs input_ids, attention_mask and
// token_type_ids, each [batch, tokens] of int64; output last_hidden_state,
// [batch, tokens, Width] of float32.
func Encode(s Shape) []byte {
	g := newGraph()
	inputs := []string{"input_ids", "attention_mask", "token_type_ids"}
	if s.NoSegments {
		inputs = inputs[:2]
	}
	for _, name := range inputs {
		g.port(graphInput, name, typeInt64, "batch_size", "sequence_length")
	}
	b := &bert{graph: g, shape: s}
	b.constants()
	x, mask := b.embeddings(), b.mask()
	for layer := range s.Layers {
		x = b.layer(x, mask, fmt.Sprintf("layer%d.", layer))
	}
	if s.Pooled {
		g.port(graphOutput, "sentence_embedding", typeFloat, "batch_size", s.Width)
		g.nodeTo("sentence_embedding", "ReduceMean", []string{x}, intsAttr("axes", 1), intAttr("keepdims", 0))
		return g.model()
	}
	g.port(graphOutput, "last_hidden_state", typeFloat, "batch_size", "sequence_length", s.Width)
	g.nodeTo("last_hidden_state", "Identity", []string{x})
	return g.model()
}

type bert struct {
	*graph
	shape Shape
}

func (b *bert) constants() {
	head := b.shape.Width / b.shape.Heads
	b.ints("to_heads", 0, 0, int64(b.shape.Heads), int64(head))
	b.ints("from_heads", 0, 0, int64(b.shape.Width))
	b.ints("mask_axes", 1, 2)
	b.ints("zero", 0)
	b.ints("one", 1)
	b.scalar("float_one", 1)
	b.scalar("half", 0.5)
	b.scalar("sqrt_two", math.Sqrt2)
	b.scalar("sqrt_head", math.Sqrt(float64(head)))
	b.scalar("lowest", -math.MaxFloat32)
}

func (b *bert) embeddings() string {
	w := int64(b.shape.Width)
	word := b.node("Gather", []string{b.random("words", 0, .05, int64(b.shape.Vocabulary), w), "input_ids"})
	all := make([]int64, b.shape.Positions)
	for i := range all {
		all[i] = int64(i)
	}
	length := b.node("Gather", []string{b.node("Shape", []string{"input_ids"}), "one"})
	at := b.node("Slice", []string{b.ints("all_positions", all...), "zero", length})
	position := b.node("Gather", []string{b.random("positions", 0, .05, int64(b.shape.Positions), w), at})
	sum := b.node("Add", []string{word, position})
	if !b.shape.NoSegments {
		sum = b.node("Add", []string{sum, b.node("Gather", []string{b.random("kinds", 0, .05, 2, w), "token_type_ids"})})
	}
	return b.normalize(sum, "embeddings.")
}

// mask is 0 where a token is and the lowest float where a row is padded.
func (b *bert) mask() string {
	wide := b.node("Unsqueeze", []string{"attention_mask", "mask_axes"})
	float := b.node("Cast", []string{wide}, intAttr("to", typeFloat))
	return b.node("Mul", []string{b.node("Sub", []string{"float_one", float}), "lowest"})
}

func (b *bert) layer(x, mask, name string) string {
	w, inner := b.shape.Width, b.shape.Inner
	q := b.heads(b.linear(x, name+"query", w, w), 0, 2, 1, 3)
	k := b.heads(b.linear(x, name+"key", w, w), 0, 2, 3, 1)
	v := b.heads(b.linear(x, name+"value", w, w), 0, 2, 1, 3)
	scores := b.node("Div", []string{b.node("MatMul", []string{q, k}), "sqrt_head"})
	weights := b.node("Softmax", []string{b.node("Add", []string{scores, mask})}, intAttr("axis", -1))
	mixed := b.node("Transpose", []string{b.node("MatMul", []string{weights, v})}, intsAttr("perm", 0, 2, 1, 3))
	joined := b.node("Reshape", []string{mixed, "from_heads"})
	attended := b.node("Add", []string{b.linear(joined, name+"out", w, w), x})
	x = b.normalize(attended, name+"attention.")
	hidden := b.gelu(b.linear(x, name+"inner", w, inner))
	return b.normalize(b.node("Add", []string{b.linear(hidden, name+"outer", inner, w), x}), name+"output.")
}

func (b *bert) heads(x string, order ...int64) string {
	return b.node("Transpose", []string{b.node("Reshape", []string{x, "to_heads"})}, intsAttr("perm", order...))
}

func (b *bert) gelu(x string) string {
	erf := b.node("Erf", []string{b.node("Div", []string{x, "sqrt_two"})})
	grown := b.node("Mul", []string{x, b.node("Add", []string{erf, "float_one"})})
	return b.node("Mul", []string{grown, "half"})
}

func (b *bert) normalize(x, name string) string {
	w := int64(b.shape.Width)
	in := []string{x, b.random(name+"scale", 1, .02, w), b.random(name+"bias", 0, .02, w)}
	return b.node("LayerNormalization", in, floatAttr("epsilon", 1e-12), intAttr("axis", -1))
}

func (b *bert) linear(x, name string, from, to int) string {
	bias := b.random(name+".bias", 0, .02, int64(to))
	if !b.shape.Int8 {
		weight := b.random(name+".weight", 0, .05, int64(from), int64(to))
		return b.node("Add", []string{bias, b.node("MatMul", []string{x, weight})})
	}
	weight, scale := b.quantized(name+".weight", .05, int64(from), int64(to))
	q := b.nodes("DynamicQuantizeLinear", []string{x}, 3)
	product := b.node("MatMulInteger", []string{q[0], weight, q[2]})
	float := b.node("Cast", []string{product}, intAttr("to", typeFloat))
	scaled := b.node("Mul", []string{float, b.node("Mul", []string{q[1], scale})})
	return b.node("Add", []string{scaled, bias})
}
