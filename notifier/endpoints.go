package notifier

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/unloop/unloop/notifier/internal/endpoints"
	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/sink/webhook"
	"github.com/unloop/unloop/schemas/match"
)

// endpoint is a webhook and the events that it gets.
type endpoint struct {
	name  string
	hook  webhook.Config
	match match.Matchers
}

// endpoints returns those of Webhook and WebhookTo. The error does not cover the secret and
// the networks that they share.
func (c Config) endpoints() ([]endpoint, error) {
	allowed, networksErr := c.allowed()
	key, _ := c.key()
	var all []endpoint
	var faults []error
	add := func(flag, text string) {
		e, err := parseEndpoint(flag, text, key)
		e.name = endpointName(flag, text)
		if err == nil && networksErr == nil {
			err = named(flag, outbound.CheckHost(e.hook.URL.Hostname(), allowed))
		}
		all, faults = append(all, e), append(faults, err)
	}
	if c.Webhook != "" {
		add("--webhook", c.Webhook)
	}
	for _, text := range c.WebhookTo {
		add("--webhook-to", text)
	}
	return all, errors.Join(faults...)
}

// endpointName returns the name of a flag's endpoint, which does not depend on other flags or
// on their order. It reveals nothing of the URL.
func endpointName(flag, text string) string {
	if flag == "--webhook" {
		return "webhook"
	}
	sum := sha256.Sum256([]byte(strings.Join(strings.Fields(text), " ")))
	return "webhook-" + hex.EncodeToString(sum[:4])
}

// parseEndpoint reads a URL and the limits on its events that stand before it. Errors do not
// quote the URL, which may contain credentials.
func parseEndpoint(flag, text string, key []byte) (endpoint, error) {
	e := endpoint{match: match.Matchers{}}
	words := strings.Fields(text)
	if len(words) == 0 {
		return e, errors.New(flag + " is empty; write it like https://example.com/hooks/unloop")
	}
	for _, word := range words[:len(words)-1] {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case (name == "project" || name == "tenant") && value != "":
			e.match[name] = []string{value}
		case name == "secret-file" && value != "":
			var err error
			if key, err = readSecret(flag+" secret-file", value); err != nil {
				return e, err
			}
		default:
			return e, errors.New(flag + ": only project=NAME, tenant=NAME and secret-file=FILE can stand before the URL")
		}
	}
	if key != nil {
		e.hook.Keys = [][]byte{key}
	}
	var err error
	e.hook.URL, err = outbound.ParseURL(words[len(words)-1])
	return e, named(flag, err)
}

// named adds the flag's name to an error about its value.
func named(flag string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %w", flag, err)
}

func readSecret(flag, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: read the secret: %w", flag, err)
	}
	return decodeSecret(flag, strings.TrimSpace(string(text)))
}

func decodeSecret(flag, secret string) ([]byte, error) {
	key, err := webhook.DecodeSecret(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; make one with: echo whsec_$(openssl rand -base64 32)", flag, err)
	}
	return key, nil
}

// webhooks returns the endpoints of Webhook and WebhookTo, ready for use.
func (c Config) webhooks() ([]endpoints.Built, error) {
	all, err := c.endpoints()
	if err != nil {
		return nil, err
	}
	allowed, err := c.allowed()
	if err != nil {
		return nil, err
	}
	built := make([]endpoints.Built, len(all))
	for i, e := range all {
		if built[i], err = endpoints.NewWebhook(e.name, e.hook, allowed, e.match); err != nil {
			return nil, err
		}
	}
	return built, nil
}
