// Package webhook delivers events to one HTTP endpoint, signed as Standard
// Webhooks (https://www.standardwebhooks.com) where a secret is configured.
//
// It guards against requests to private networks, follows no redirects and
// reads no more of an answer than it must. It knows nothing of NATS, of
// retries, or of other sinks: its errors say what a caller may do next. None
// of them holds the URL, the secret or the body.
package webhook
