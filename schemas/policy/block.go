package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// EncodeBlock returns the JSON of those fields of a detector's block that detectors use and
// that differ from the default. It returns nil for a nil block.
func EncodeBlock[B any](block *B) ([]byte, error) {
	if block == nil {
		return nil, nil
	}
	changed, standard := map[string]any{}, fieldsOf(reflect.ValueOf(withDefaults[B]()).Elem())
	for i, f := range fieldsOf(reflect.ValueOf(block).Elem()) {
		if !f.local && !reflect.DeepEqual(f.value.Interface(), standard[i].value.Interface()) {
			changed[f.name] = f.value.Interface()
		}
	}
	return json.Marshal(changed)
}

// DecodeBlock returns the block that EncodeBlock wrote, and checks it like one of a bundle. It
// ignores fields of newer versions. It returns nil for no data.
func DecodeBlock[B any](data []byte) (*B, error) {
	if len(data) == 0 {
		return nil, nil
	}
	block := withDefaults[B]()
	if err := json.Unmarshal(data, block); err != nil {
		return nil, fmt.Errorf("read a detector's parameters: %w", err)
	}
	r := newReport()
	r.walk(reflect.ValueOf(block), "", constraint{}, false)
	if err := r.err(); err != nil {
		return nil, err
	}
	return block, nil
}
