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
	// Name is the claim, header, query parameter or property of the address; empty for sources
	// with a single value. Header names are in lower case.
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
	valid := false
	switch source {
	case "caller", "tenant", "session", "project", "model":
		valid = !named
	case "jwt", "query":
		valid = validName(name)
	case "header":
		valid, name = validName(name), strings.ToLower(name)
	case "ip":
		valid = name == "address" || proxied[name] != ""
	case "ua":
		valid = name == "bot" || name == "bot_category"
	}
	if !valid {
		return Descriptor{}, fmt.Errorf("%q is no descriptor (%s)", s, descriptorForms)
	}
	return Descriptor{Source: source, Name: name}, nil
}

const descriptorForms = "jwt:CLAIM, header:NAME, query:NAME, ip:address|country|asn|type|tor, ua:bot|bot_category, caller, tenant, session, project, model"

// proxied are the headers with which a trusted proxy classifies an address.
var proxied = map[string]string{"country": "X-Country-Code", "asn": "X-ASN", "type": "X-ASN-Type", "tor": "X-Tor-Exit"}

// Proxied returns the header in which a trusted proxy sends the descriptor's value; ""
// for descriptors that come from elsewhere.
func (d Descriptor) Proxied() string {
	if d.Source != "ip" {
		return ""
	}
	return proxied[d.Name]
}

// alphanumeric are the letters and digits of ASCII.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// validName accepts what Fairvisor does, and the dots and slashes that claims
// of other issuers have.
func validName(name string) bool {
	return name != "" && len(name) <= 128 && consistsOf(name, alphanumeric+"-_./:")
}

// consistsOf reports whether a text has no other characters than those.
func consistsOf(text, characters string) bool { return strings.Trim(text, characters) == "" }
