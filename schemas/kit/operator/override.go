package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/unloop/unloop/schemas"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// overrideMargin is how much longer than an override its record is stored: gateways end it by
// its own expiry.
const overrideMargin = time.Minute

// PutOverride stores a block or an exemption, or the record of its early end, until its
// expiry.
func PutOverride(ctx context.Context, js jetstream.JetStream, by *seal.Signer, o schemas.Override) error {
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("store an override: %w", err)
	}
	_, err = Store(ctx, js, by, schemas.BucketOverrides, o.Key(), body, time.Until(o.ExpiresAt)+overrideMargin)
	return err
}

// AuditOf returns the audit's action for the beginning or the end of an override.
func AuditOf(action schemas.OverrideAction, begins bool) schemas.AuditAction {
	switch {
	case action == schemas.OverrideBlock && begins:
		return schemas.AuditBlock
	case action == schemas.OverrideBlock:
		return schemas.AuditUnblock
	case begins:
		return schemas.AuditExempt
	default:
		return schemas.AuditUnexempt
	}
}

// OverrideDetail returns the audit's detail of an override: its expiry and reason.
func OverrideDetail(o schemas.Override) string {
	text := "until " + o.ExpiresAt.UTC().Format(time.RFC3339)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}
