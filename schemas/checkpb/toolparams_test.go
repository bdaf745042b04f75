package checkpb_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/unloop/unloop/schemas/checkpb"
	"github.com/unloop/unloop/schemas/toolparams"
)

// fill sets every field of a message to a value of its own.
func fill(m protoreflect.Message, next *uint32) {
	fields := m.Descriptor().Fields()
	value := func(f protoreflect.FieldDescriptor) protoreflect.Value {
		*next++
		switch f.Kind() {
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(fmt.Sprint("text ", *next))
		default:
			return protoreflect.ValueOfUint32(*next)
		}
	}
	for i := range fields.Len() {
		f := fields.Get(i)
		if !f.IsList() {
			m.Set(f, value(f))
			continue
		}
		list := m.Mutable(f).List()
		for range 2 {
			if f.Kind() == protoreflect.MessageKind {
				fill(list.AppendMutable().Message(), next)
			} else {
				list.Append(value(f))
			}
		}
	}
}

func TestEveryToolParameterTravelsBothWays(t *testing.T) {
	t.Parallel()
	sent, next := &checkpb.ToolParams{}, uint32(0)
	fill(sent.ProtoReflect(), &next)
	plain := sent.Plain()
	if diff := cmp.Diff(sent, checkpb.ToolParamsOf(&plain), protocmp.Transform()); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	local := []string{"WorkMultiplier", "FailedWorkMultiplier"} // which no policy sets
	for field, value := range reflect.ValueOf(plain).Fields() {
		if value.IsZero() != slices.Contains(local, field.Name) {
			t.Errorf("field %s is %v", field.Name, value)
		}
	}
	if diff := cmp.Diff(toolparams.Params{}, (*checkpb.ToolParams)(nil).Plain()); diff != "" {
		t.Errorf("no parameters: %s", diff)
	}
}
