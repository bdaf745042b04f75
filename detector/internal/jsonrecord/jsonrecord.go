// Package jsonrecord appends records as JSON: field by field without reflection, for those
// that are written once a hit, or whole. It knows no record and does not read JSON.
package jsonrecord

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Whole appends a record by reflection. One that can't be written, such as a time in the
// year 10000, is forgotten.
func Whole(b []byte, record any) []byte {
	body, err := json.Marshal(record)
	if err != nil {
		return append(b, "{}"...)
	}
	return append(b, body...)
}

// Name appends the name of the next field of an object, which has begun with "{".
func Name(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), '"', ':')
}

// Number appends a field with an integer.
func Number(b []byte, name string, n int64) []byte { return strconv.AppendInt(Name(b, name), n, 10) }

// AppendInt appends an integer without a name, such as an element of a list.
func AppendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// Int appends a field with an integer, unless it is 0.
func Int(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return Number(b, name, n)
}

// Float appends a field with a finite number, unless it is 0.
func Float(b []byte, name string, f float64) []byte {
	if f == 0 {
		return b
	}
	return strconv.AppendFloat(Name(b, name), f, 'g', -1, 64)
}

// String appends a field with a text, unless it is empty. Bytes that are no UTF-8 are
// replaced.
func String(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return quote(Name(b, name), text)
}

func quote(b []byte, text string) []byte {
	b, _ = jsontext.AppendQuote(b, text) // the error is that bytes were replaced
	return b
}

// List appends a field with a list, unless it is empty; element appends one element.
func List[T any](b []byte, name string, list []T, element func([]byte, T) []byte) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(Name(b, name), '[')
	for i, e := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = element(b, e)
	}
	return append(b, ']')
}

// Ints appends a field with a list of integers, unless it is empty.
func Ints(b []byte, name string, list []int64) []byte {
	return List(b, name, list, AppendInt)
}

// Strings appends a field with a list of texts, unless it is empty.
func Strings(b []byte, name string, list []string) []byte { return List(b, name, list, quote) }
