package detector

import (
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"
)

// Config is a detector's configuration.
type Config struct {
	MaxInFlight int           `default:"4096" help:"Checks that a detector works on at once; more are answered as overloaded."`
	MaxBudget   time.Duration `default:"2s" help:"Longest time that a detector spends on a check, whatever its gateway asks."`
}

// DefaultConfig returns the configuration without any flag.
func DefaultConfig() Config {
	var c Config
	_ = kong.ApplyDefaults(&c) // the defaults are constants; Validate's test covers them
	return c
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults []error
	if c.MaxInFlight < 1 {
		faults = append(faults, fmt.Errorf("--max-in-flight is %d, must be at least 1", c.MaxInFlight))
	}
	if c.MaxBudget <= 0 {
		faults = append(faults, fmt.Errorf("--max-budget is %s, must be positive", c.MaxBudget))
	}
	return errors.Join(faults...)
}
