package endpoints

import (
	"net/netip"

	"github.com/unloop/unloop/notifier/internal/outbound"
	"github.com/unloop/unloop/notifier/internal/routing"
	"github.com/unloop/unloop/notifier/internal/sink/webhook"
	"github.com/unloop/unloop/schemas/match"
)

// NewWebhook returns the endpoint of a webhook in flags. It gets the events that match.
func NewWebhook(name string, cfg webhook.Config, allowed []netip.Prefix, match match.Matchers) (Built, error) {
	w, err := webhook.New(cfg, outbound.NewDialer(allowed))
	if err != nil {
		return Built{}, err
	}
	return Built{
		Name: name, Kind: "webhook", Sink: w, Signed: len(cfg.Keys) > 0, Routes: []routing.Route{{Name: "all", Match: match}},
	}, nil
}
