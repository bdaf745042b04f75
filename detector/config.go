package detector

import (
	"time"

	"github.com/unloop/unloop/schemas/kit/service"
)

// Config is a detector's configuration.
type Config struct {
	MaxInFlight int           `default:"4096" help:"How many checks a detector processes at the same time; further ones are refused as overloaded."`
	MaxBudget   time.Duration `default:"2s" help:"Longest time for one check, whatever the gateway asks for."`
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config { return service.Defaults[Config]() }

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults service.Faults
	faults.Check(c.MaxInFlight >= 1, "--max-in-flight is %d, must be at least 1", c.MaxInFlight)
	faults.Check(c.MaxBudget > 0, "--max-budget is %s, must be positive", c.MaxBudget)
	return faults.Err()
}
