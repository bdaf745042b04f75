package service

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"
)

// Defaults returns a configuration with the defaults in its tags, which the tests of each
// service cover.
func Defaults[Config any]() (c Config) {
	_ = kong.ApplyDefaults(&c)
	return c
}

// Faults collects the faults of a configuration, so that all are reported at once.
type Faults []error

// Check adds a fault unless ok.
func (f *Faults) Check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Err joins the faults; nil if there is none.
func (f Faults) Err() error { return errors.Join(f...) }
