package notifier

import (
	_ "embed"
	"net/netip"

	"github.com/unloop/unloop/notifier/internal/endpoints"
	"github.com/unloop/unloop/schemas/policy"
)

// Schema is the JSON Schema (2020-12) of --notify files.
//
//go:embed notify.schema.json
var Schema []byte

// Checked is an endpoint of a checked file.
type Checked struct {
	Name, Kind string
	// Routes is the number of routes to the endpoint.
	Routes int
}

// Check reads the content of a --notify file and the secrets that it names, and returns its
// endpoints. allowed are the networks of --allow-cidr. Faults returns the faults in the error.
func Check(data []byte, allowed []netip.Prefix) ([]Checked, error) {
	built, err := endpoints.Load(data, allowed, endpoints.System())
	if err != nil {
		return nil, err
	}
	defer endpoints.Close(built)
	all := make([]Checked, len(built))
	for i, b := range built {
		all[i] = Checked{b.Name, b.Kind, len(b.Routes)}
	}
	return all, nil
}

// Faults returns every fault in an error of Check.
func Faults(err error) []policy.Fault { return endpoints.Faults(err) }
