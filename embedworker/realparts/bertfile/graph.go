package bertfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers and codes of onnx.proto.
const (
	graphNode, graphName, graphTensor  protowire.Number = 1, 2, 5
	graphInput, graphOutput            protowire.Number = 11, 12
	modelVersion, modelGraph, modelOps protowire.Number = 1, 7, 8

	typeFloat, typeInt8, typeInt64 = 1, 3, 7

	attrFloat, attrInt, attrInts = 1, 2, 7

	// irVersion and opset are the oldest that have every operator used here.
	irVersion, opset = 8, 17
)

// message is a protobuf message under construction.
type message []byte

func (m *message) text(n protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, n, protowire.BytesType), s)
}

func (m *message) bytes(n protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, n, protowire.BytesType), b)
}

func (m *message) int(n protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, n, protowire.VarintType), uint64(v))
}

// graph collects nodes and weights.
type graph struct {
	body  message
	rng   *rand.Rand
	count int
}

func newGraph() *graph { return &graph{rng: rand.New(rand.NewPCG(1, 2))} }

func (g *graph) model() []byte {
	g.body.text(graphName, "bert")
	var ops, m message
	ops.int(2, opset)
	m.int(modelVersion, irVersion)
	m.bytes(modelGraph, g.body)
	m.bytes(modelOps, ops)
	return m
}

// port declares an input or output; its dimensions are names or numbers.
func (g *graph) port(field protowire.Number, name string, kind int64, dims ...any) {
	var shape, tensor, typ, info message
	for _, d := range dims {
		var dim message
		switch v := d.(type) {
		case string:
			dim.text(2, v)
		case int:
			dim.int(1, int64(v))
		}
		shape.bytes(1, dim)
	}
	tensor.int(1, kind)
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	info.text(1, name)
	info.bytes(2, typ)
	g.body.bytes(field, info)
}

func (g *graph) tensor(name string, kind int64, raw []byte, dims ...int64) string {
	var t message
	for _, d := range dims {
		t.int(1, d)
	}
	t.int(2, kind)
	t.text(8, name)
	t.bytes(9, raw)
	g.body.bytes(graphTensor, t)
	return name
}

func product(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

// random adds weights around a mean.
func (g *graph) random(name string, mean, spread float64, dims ...int64) string {
	raw := make([]byte, 0, 4*product(dims))
	for range product(dims) {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(mean+spread*g.rng.NormFloat64())))
	}
	return g.tensor(name, typeFloat, raw, dims...)
}

// quantized adds weights around zero as 8-bit integers, and their scale.
func (g *graph) quantized(name string, spread float64, dims ...int64) (weight, scale string) {
	raw := make([]byte, product(dims))
	step := 4 * spread / 127
	for i := range raw {
		v := math.Round(spread * g.rng.NormFloat64() / step)
		raw[i] = byte(int8(max(-127, min(127, v))))
	}
	return g.tensor(name, typeInt8, raw, dims...), g.scalar(name+".scale", step)
}

func (g *graph) ints(name string, values ...int64) string {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return g.tensor(name, typeInt64, raw, int64(len(values)))
}

func (g *graph) scalar(name string, v float64) string {
	return g.tensor(name, typeFloat, binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(v))))
}

type attr message

func intAttr(name string, v int64) attr {
	var m message
	m.text(1, name)
	m.int(3, v)
	m.int(20, attrInt)
	return attr(m)
}

func floatAttr(name string, v float32) attr {
	var m message
	m.text(1, name)
	m = protowire.AppendFixed32(protowire.AppendTag(m, 2, protowire.Fixed32Type), math.Float32bits(v))
	m.int(20, attrFloat)
	return attr(m)
}

func intsAttr(name string, values ...int64) attr {
	var m message
	m.text(1, name)
	for _, v := range values {
		m.int(8, v)
	}
	m.int(20, attrInts)
	return attr(m)
}

// node adds an operator with one output, whose name it returns.
func (g *graph) node(op string, in []string, attrs ...attr) string {
	return g.nodes(op, in, 1, attrs...)[0]
}

// nodes adds an operator with several outputs.
func (g *graph) nodes(op string, in []string, outputs int, attrs ...attr) []string {
	g.count++
	out := make([]string, outputs)
	for i := range out {
		out[i] = fmt.Sprintf("%s_%d_%d", op, g.count, i)
	}
	g.write(op, in, out, attrs)
	return out
}

func (g *graph) nodeTo(out, op string, in []string, attrs ...attr) {
	g.write(op, in, []string{out}, attrs)
}

func (g *graph) write(op string, in, out []string, attrs []attr) {
	var n message
	for _, name := range in {
		n.text(1, name)
	}
	for _, name := range out {
		n.text(2, name)
	}
	n.text(3, "node_"+out[0])
	n.text(4, op)
	for _, a := range attrs {
		n.bytes(5, a)
	}
	g.body.bytes(graphNode, n)
}
