//go:build !linux

package chaos

import (
	"context"
	"errors"
)

func mountDisk(string) error { return errors.ErrUnsupported }

func unmountDisk(string) error { return nil }

func diskFull(context.Context, *cluster) error { return errors.ErrUnsupported }

func diskFree(context.Context, *cluster) error { return errors.ErrUnsupported }
