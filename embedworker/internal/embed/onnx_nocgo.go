//go:build !cgo

package embed

import (
	"context"
	"fmt"
)

// openONNX says that this build has no way to load ONNX Runtime.
func openONNX(context.Context, Config) (Embedder, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo, which ONNX Runtime needs", ErrUnavailable)
}
