package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway"
	"github.com/unloop/unloop/schemas/policy"
)

// errFaulty is the error for a file whose faults were printed.
var errFaulty = errors.New("not valid")

type policyCheckCmd struct {
	formatted
	Files []string `arg:"" name:"file" type:"existingfile" help:"Bundles, YAML or JSON."`
}

// complaint is a fault or a warning about a bundle.
type complaint struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Warning says that the bundle is valid nevertheless.
	Warning bool `json:"warning,omitempty"`
}

// bundleCheck is the result for one bundle, as JSON.
type bundleCheck struct {
	File     string      `json:"file"`
	Valid    bool        `json:"valid"`
	Version  string      `json:"version,omitempty"`
	Policies int         `json:"policies"`
	Faults   []complaint `json:"faults"`
}

// Run checks bundles and prints every fault.
func (c *policyCheckCmd) Run(std streams) error {
	out := std.printer()
	faulty := 0
	results := []bundleCheck{}
	for _, file := range c.Files {
		bundle, _, complaints, err := readBundle(file)
		if err != nil && !errors.Is(err, errFaulty) {
			return err
		}
		r := bundleCheck{File: file, Valid: err == nil, Version: bundle.version, Faults: append([]complaint{}, complaints...)}
		if !c.JSON {
			printComplaints(out, complaints)
		}
		if r.Valid {
			r.Policies = len(bundle.Policies)
			if !c.JSON {
				out.printf("%s: valid; version %s, %s\n", file, r.Version, plural(r.Policies, "policy"))
			}
		} else {
			faulty++
		}
		results = append(results, r)
	}
	if c.JSON {
		out.err = std.json(results)
	}
	if faulty > 0 {
		return errors.Join(out.err, fmt.Errorf("%d of %d bundles are %w", faulty, len(c.Files), errFaulty))
	}
	return out.err
}

// checked is a valid bundle with its version.
type checked struct {
	*policy.Bundle
	version string
}

// readBundle reads a bundle and returns its faults and warnings. If there is a fault, the
// error is errFaulty.
func readBundle(file string) (checked, []byte, []complaint, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return checked{}, nil, nil, fmt.Errorf("read %s: %w", file, err)
	}
	bundle, err := policy.Parse(data)
	faulty := fmt.Errorf("%s is %w", file, errFaulty)
	if faults, ok := errors.AsType[*policy.Faults](err); ok {
		return checked{}, nil, complaintsOf(file, faults.List, false), faulty
	}
	if err != nil {
		return checked{}, nil, nil, fmt.Errorf("read %s: %w", file, err)
	}
	all := complaintsOf(file, append(bundle.Warnings(), bundle.Lapsed(time.Now())...), true)
	all = append(all, promptless(file, bundle)...)
	if bundle.ExpiredAt(time.Now()) {
		return checked{}, nil, append(all, complaint{File: file, Field: "expires_at", Message: "the bundle has expired, and no gateway loads it"}), faulty
	}
	version, err := bundle.Version()
	if err != nil {
		return checked{}, nil, all, fmt.Errorf("read %s: %w", file, err)
	}
	return checked{bundle, version}, data, all, nil
}

// promptless warns of policies that inspect only prompts, but select only paths that have none.
func promptless(file string, bundle *policy.Bundle) (all []complaint) {
	for i, p := range bundle.Policies {
		paths := p.Spec.Selector.PathExact
		if len(paths) == 0 || len(p.Spec.Selector.PathPrefix) > 0 || !p.Spec.OnlyPrompts() || slices.ContainsFunc(paths, gateway.HasPrompts) {
			continue
		}
		all = append(all, complaint{
			File: file, Field: fmt.Sprintf("policies[%d].spec.selector.pathExact", i), Warning: true,
			Message: fmt.Sprintf("the policy watches nothing: no wire format has prompts at %s, such as /v1/chat/completions; loop_detection compares requests on any path", strings.Join(paths, ", ")),
		})
	}
	return all
}

func complaintsOf(file string, faults []policy.Fault, warnings bool) (all []complaint) {
	for _, f := range faults {
		all = append(all, complaint{file, f.Line, f.Field, f.Message, warnings})
	}
	return all
}

// printComplaints prints complaints as FILE:LINE: MESSAGE.
func printComplaints(out *printer, all []complaint) {
	for _, c := range all {
		line, kind, field := "", "", ""
		if c.Line > 0 {
			line = fmt.Sprintf("%d:", c.Line)
		}
		if c.Warning {
			kind = "warning: "
		}
		if c.Field != "" {
			field = c.Field + ": "
		}
		out.printf("%s:%s %s%s%s\n", c.File, line, kind, field, c.Message)
	}
}
