package policy

import "reflect"

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
	r := newReport()
	root, fault := parseTree(data, bundleNoun)
	if fault != nil {
		r.faults = append(r.faults, *fault)
		return nil, r.err()
	}
	b := &Bundle{}
	d := &decoder{report: r, strict: strict, noun: bundleNoun}
	if d.decode(root, reflect.ValueOf(b).Elem()) {
		b.check(r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	b.source = append([]byte(nil), data...)
	b.warnings = r.warnings
	return b, nil
}

// Validate checks a bundle that was made in Go, repairs what Parse would
// repair, and returns a *Faults with all that is wrong. What Parse returned was
// checked before.
func (b *Bundle) Validate() error {
	if b.source != nil {
		return nil
	}
	r := newReport()
	b.check(r)
	b.warnings = r.warnings
	return r.err()
}
