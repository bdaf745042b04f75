package checkapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Description returns the check of a request that is described as in a check, with its
// headers in a field of their own.
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
