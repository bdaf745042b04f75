package policy

import (
	"fmt"
	"reflect"
)

// checked is a block with constraints on more than one field.
type checked interface {
	checkBlock(r *report, path string)
}

// inerting is a block that knows which of its keys have no effect beside the others.
type inerting interface {
	inert(r *report, path string)
}

// walk checks a value and everything in it, and makes the documented repairs. It skips a
// zero value that is optional and was not read.
func (r *report) walk(v reflect.Value, path string, c constraint, optional bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.walk(v.Elem(), path, c, false)
		}
	case reflect.Struct:
		r.walkStruct(v, path)
	case reflect.Map:
		r.walkMap(v, path)
	case reflect.Slice:
		for i := range v.Len() {
			r.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i), c, false)
		}
	default:
		if optional && v.IsZero() && !r.read(path) {
			return
		}
		if c.zero && v.IsZero() {
			setText(v, c.standard)
			r.warn(path, fmt.Sprintf("%s is 0: the default %s is used", fieldName(path), c.standard))
		}
		if message := r.leafFault(v, c); message != "" {
			r.fault(path, fieldName(path)+" "+message)
		}
	}
}

func (r *report) walkMap(v reflect.Value, path string) {
	names := map[string]struct{}{}
	for _, key := range v.MapKeys() {
		names[key.String()] = struct{}{}
	}
	for _, name := range sortedKeys(names) {
		// A map's values can't be addressed.
		element := reflect.New(v.Type().Elem()).Elem()
		element.Set(v.MapIndex(reflect.ValueOf(name)))
		r.walk(element, join(path, name), constraint{}, false)
	}
}

func (r *report) walkStruct(v reflect.Value, path string) {
	if b, ok := reflect.TypeAssert[*Bundle](v.Addr()); ok && b.Compatible(CompatFairvisor) {
		b.sortStages()
	}
	fields := fieldsOf(v)
	required := "%s is required"
	if len(fields) > 0 && fields[0].name == "enabled" {
		if !fields[0].value.Bool() {
			if r.read(path) && !r.read(join(path, "enabled")) {
				r.warn(path, fieldName(path)+" has no effect: it does not say enabled: true")
			}
			return
		}
		required = "when enabled is true, %s is required"
	}
	for _, f := range fields {
		at := join(path, f.name)
		if f.required && r.missing(f, at) {
			r.fault(at, fmt.Sprintf(required, f.name))
			continue
		}
		r.walk(f.value, at, f.constraint, f.optional)
	}
	if block, ok := reflect.TypeAssert[checked](v.Addr()); ok {
		block.checkBlock(r, path)
	}
	if block, ok := reflect.TypeAssert[inerting](v.Addr()); ok {
		block.inert(r, path)
	}
}

// missing reports whether a required field was left out. Without text to
// look at, a zero value counts as left out.
func (r *report) missing(f field, at string) bool {
	if r.read("") {
		return !r.read(at)
	}
	return f.value.IsZero()
}

func (r *report) leafFault(v reflect.Value, c constraint) string {
	switch v.Kind() {
	case reflect.Int, reflect.Int64:
		return c.number(float64(v.Int()), true)
	case reflect.Float64:
		return c.number(v.Float(), false)
	case reflect.String:
		return c.text(v.String(), r)
	default:
		return ""
	}
}
