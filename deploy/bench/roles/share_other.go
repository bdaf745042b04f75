//go:build !linux

package roles

import "errors"

// Share is not supported: control groups are Linux's.
func (*Process) Share(float64) (end func() error, err error) { return nil, errors.ErrUnsupported }
