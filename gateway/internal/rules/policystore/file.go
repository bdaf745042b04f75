package policystore

import (
	"context"
	"fmt"

	"github.com/unloop/unloop/schemas/kit/filewatch"
)

// FollowFile puts each new version of the configured file into force until the context
// ends; without a file it returns at once.
func (p *Policies) FollowFile(ctx context.Context) error {
	if p.file == "" {
		return nil
	}
	if err := filewatch.Follow(ctx, p.file, p.read, func(data []byte) { p.replace(data, sourceFile) }, nil); err != nil {
		return fmt.Errorf("follow --policies: %w", err)
	}
	return nil
}
