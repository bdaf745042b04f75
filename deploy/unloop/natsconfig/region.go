package natsconfig

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path"
	"strconv"

	"github.com/unloop/unloop/schemas/kit/natsperm"
	"github.com/unloop/unloop/schemas/kit/seal"
)

// Files of a region that joins: its credentials for the origin, and the origin's CA certificate.
const (
	fileLink     = "link.conf"
	fileOriginCA = "origin-ca.pem"
)

// Invitation is the file with which a region joins the origin of policies and overrides.
type Invitation struct {
	// Region is the name of the region that joins, Origin that of the other.
	Region string `json:"region"`
	Origin string `json:"origin"`
	// URLs are the addresses of the origin's servers for leaf nodes.
	URLs []string `json:"urls"`
	// Seed is the nkey seed of the region's servers.
	Seed string `json:"seed"`
	// CA is the origin's CA certificate (PEM), or CAFile its path on servers.
	CA     string `json:"ca,omitempty"`
	CAFile string `json:"ca_file,omitempty"`
	// SealKey is the public key of the origin's operators.
	SealKey string `json:"seal_key"`
}

// InvitationFile returns the name of the file with which a region joins.
func InvitationFile(region string) string { return "region-" + region + ".json" }

// ReadInvitation reads the file with which a region joins.
func ReadInvitation(file string) (*Invitation, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read what the origin wrote: %w", err)
	}
	var v Invitation
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("%w: %s is not the file of a region (%s): %w", ErrInvalid, file, InvitationFile("NAME"), err)
	}
	_, err = seal.NewTrust(v.SealKey)
	if _, _, keyErr := userKey(v.Seed); v.Seed == "" || keyErr != nil || err != nil || !domainForm.MatchString(v.Region) || !domainForm.MatchString(v.Origin) || len(v.URLs) == 0 {
		return nil, fmt.Errorf("%w: %s is not the complete file of a region (%s)", ErrInvalid, file, InvitationFile("NAME"))
	}
	return &v, nil
}

// link is a region that may join, as a user of the origin's servers.
type link struct {
	serverUser
	invitation Invitation
}

// invite returns the regions that may join. It reuses existing keys.
func (c Config) invite(before keeper, sealKey, ca string) (all []link, err error) {
	for _, region := range c.Regions {
		var was Invitation
		_ = json.Unmarshal([]byte(before.read(InvitationFile(region))), &was) // a missing one has no seed
		seed, public, err := userKey(was.Seed)
		if err != nil {
			return nil, fmt.Errorf("key in %s: %w", InvitationFile(region), err)
		}
		u := natsperm.Link(region, c.Domain)
		one := link{serverUser{u.Does, public, u.MayPublish(""), u.MaySubscribe()}, Invitation{
			Region: region, Origin: c.Domain, Seed: seed, CA: ca, CAFile: c.TLS.CA, SealKey: sealKey,
		}}
		for _, n := range c.Nodes {
			one.invitation.URLs = append(one.invitation.URLs, "tls://"+net.JoinHostPort(n.Host, strconv.Itoa(n.LeafPort)))
		}
		all = append(all, one)
	}
	return all, nil
}

// invitations returns the files for regions that may join.
func invitations(links []link) (files []file, err error) {
	for _, l := range links {
		text, err := json.MarshalIndent(l.invitation, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write what region %s joins with: %w", l.invitation.Region, err)
		}
		files = append(files, file{InvitationFile(l.invitation.Region), string(text) + "\n", true})
	}
	return files, nil
}

// joining returns the files with which servers join the origin.
func (c Config) joining() (files []file) {
	if c.Origin == nil {
		return nil
	}
	files = append(files, file{fileLink, "# Who this region is to the origin. Keep it secret.\nnkey: " + quote(trimmed(c.Origin.Seed)) + "\n", true})
	if c.Origin.CA != "" {
		files = append(files, file{fileOriginCA, c.Origin.CA, false})
	}
	return files
}

// originCA returns the path of the origin's CA certificate on servers.
func (c Config) originCA() string {
	if c.Origin == nil {
		return ""
	}
	if c.Origin.CA == "" {
		return c.Origin.CAFile
	}
	return path.Join(c.ServerDir, fileOriginCA)
}
