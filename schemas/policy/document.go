package policy

import (
	"errors"
	"reflect"
	"strings"
)

// Document is a configuration file other than a bundle that was read by the same rules.
type Document struct{ report *report }

// Decode reads a document in YAML or JSON into a struct, whose fields have the tags json
// and check as those of a Bundle, and checks it. Unknown and repeated keys are faults. noun
// is what messages call the document. The caller may add faults; Err returns all of them.
// The document is nil if nothing could be read, and the error then says why.
func Decode(data []byte, noun string, into any) (*Document, error) {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return nil, errors.New("decode document: the target must point to a struct")
	}
	r, err := read(data, noun, true, target.Elem())
	if err != nil {
		return nil, err
	}
	return &Document{r}, nil
}

// Fault adds a fault of a field, such as endpoints[0].name. A field that has one keeps it.
func (d *Document) Fault(path, message string) { d.report.fault(path, message) }

// Faulty reports whether a field, or one in it, has a fault.
func (d *Document) Faulty(path string) bool {
	for faulty := range d.report.faulty {
		if rest, ok := strings.CutPrefix(faulty, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Err returns a *Faults with everything that is wrong, nil if nothing is.
func (d *Document) Err() error { return d.report.err() }
