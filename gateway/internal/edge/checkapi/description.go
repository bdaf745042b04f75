package checkapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Description returns the HTTP request of a check. The description is the check's body with
// an extra field for headers.
func Description(ctx context.Context, description []byte) (*http.Request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(description, &fields); err != nil {
		return nil, fmt.Errorf("read the description: %w", err)
	}
	var headers map[string]string
	if raw, ok := fields["headers"]; ok {
		if err := json.Unmarshal(raw, &headers); err != nil {
			return nil, fmt.Errorf("headers must be an object of texts: %w", err)
		}
		delete(fields, "headers")
	}
	check, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write the check: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, CheckPath, bytes.NewReader(check))
	if err != nil {
		return nil, fmt.Errorf("write the check: %w", err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r, nil
}
