package policy

import (
	"reflect"
	"slices"
)

// bundleNoun is what messages call a bundle.
const bundleNoun = "bundle"

// Parse reads a bundle in YAML or JSON, fills in the defaults and checks it.
// Unknown and repeated keys are faults. The error is a *Faults with all of
// them.
func Parse(data []byte) (*Bundle, error) { return parse(data, true) }

// ParseTolerant is Parse for a bundle that a newer version may have written:
// unknown keys are ignored, and named among the warnings.
func ParseTolerant(data []byte) (*Bundle, error) { return parse(data, false) }

func parse(data []byte, strict bool) (*Bundle, error) {
	b := &Bundle{}
	r, err := read(data, bundleNoun, strict, reflect.ValueOf(b).Elem())
	if err == nil {
		err = r.err()
	}
	if err != nil {
		return nil, err
	}
	b.source = slices.Clone(data)
	b.lines, b.warnings = r.lines, r.warnings
	return b, nil
}

// read reads a document into a struct, and checks it. It errs if nothing could be read.
func read(data []byte, noun string, strict bool, into reflect.Value) (*report, error) {
	r := newReport()
	root, fault := parseTree(data, noun)
	if fault != nil {
		r.faults = append(r.faults, *fault)
		return nil, r.err()
	}
	d := &decoder{report: r, strict: strict, noun: noun}
	if !d.decode(root, into) {
		return nil, r.err()
	}
	r.walk(into, "", constraint{}, false)
	return r, nil
}

// Validate checks a bundle that was made in Go, repairs what Parse would
// repair, and returns a *Faults with all that is wrong. What Parse returned was
// checked before.
func (b *Bundle) Validate() error {
	if b.source != nil {
		return nil
	}
	r := newReport()
	r.walk(reflect.ValueOf(b).Elem(), "", constraint{}, false)
	b.warnings = r.warnings
	return r.err()
}
