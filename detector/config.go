package detector

import (
	"time"

	"github.com/unloop/unloop/schemas/kit/service"
)

// Config is a detector's configuration.
type Config struct {
	MaxInFlight int           `default:"4096" help:"Checks that a detector works on at once; more are answered as overloaded."`
	MaxBudget   time.Duration `default:"2s" help:"Longest time that a detector spends on a check, whatever its gateway asks."`
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
