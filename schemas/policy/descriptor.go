package policy

import (
	"fmt"
	"strings"
)

// Descriptor names one property of a request, such as jwt:org_id. It is
// comparable, and its zero value names nothing.
type Descriptor struct {
	// Source is jwt, header, query, ip, ua, caller, tenant, session, project
	// or model.
	Source string
	// Name is the claim, header or query parameter, or what of the address;
	// empty for the sources that have but one value. Header names are in lower
	// case.
	Name string
}

// String returns the descriptor as a bundle has it.
func (d Descriptor) String() string {
	if d.Name == "" {
		return d.Source
	}
	return d.Source + ":" + d.Name
}

// ParseDescriptor parses a descriptor of a bundle. The error lists the possible ones.
func ParseDescriptor(s string) (Descriptor, error) {
	source, name, named := strings.Cut(s, ":")
	switch source {
	case "caller", "tenant", "session", "project", "model":
		if !named {
			return Descriptor{Source: source}, nil
		}
	case "jwt", "header", "query":
		if validName(name) {
			return Descriptor{Source: source, Name: descriptorName(source, name)}, nil
		}
	case "ip":
		if name == "address" || enriched(source, name) {
			return Descriptor{Source: source, Name: name}, nil
		}
	case "ua":
		if enriched(source, name) {
			return Descriptor{Source: source, Name: name}, nil
		}
	}
	return Descriptor{}, fmt.Errorf("%q is no descriptor (%s)", s, descriptorForms)
}

const descriptorForms = "jwt:CLAIM, header:NAME, query:NAME, ip:address|country|asn|type|tor, ua:bot|bot_category, caller, tenant, session, project, model"

// Proxied returns the header in which a trusted proxy sends the descriptor's value; ""
// for descriptors that come from elsewhere.
func (d Descriptor) Proxied() string {
	if d.Source != "ip" {
		return ""
	}
	switch d.Name {
	case "country":
		return "X-Country-Code"
	case "asn":
		return "X-ASN"
	case "type":
		return "X-ASN-Type"
	case "tor":
		return "X-Tor-Exit"
	default:
		return ""
	}
}

func enriched(source, name string) bool {
	switch source + ":" + name {
	case "ip:country", "ip:asn", "ip:type", "ip:tor", "ua:bot", "ua:bot_category":
		return true
	}
	return false
}

func descriptorName(source, name string) string {
	if source == "header" {
		return strings.ToLower(name)
	}
	return name
}

// validName accepts what Fairvisor does, and the dots and slashes that claims
// of other issuers have.
func validName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for _, c := range name {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.ContainsRune("-_./:", c):
		default:
			return false
		}
	}
	return true
}
