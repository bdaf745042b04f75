package natsconfig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// Lifetimes of certificates.
const (
	authorityFor = 10 * 365 * 24 * time.Hour
	serverFor    = 2 * 365 * 24 * time.Hour
	// skew allows for machines whose clocks are behind.
	skew = time.Hour
)

// authority signs the servers' certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certify returns the files of the authority and of a certificate for each server. It reuses
// existing ones, so that clients trust servers that are added.
func (c Config) certify(before keeper) ([]file, error) {
	cert, key := before.read(fileCA), before.read(fileCAKey)
	var err error
	if cert == "" || key == "" {
		if cert, key, err = newAuthority(); err != nil {
			return nil, err
		}
		before.keep = false // existing certificates are from another authority
	}
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		return nil, fmt.Errorf("read %s and %s: %w", fileCA, fileCAKey, err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%w: the key in %s can't sign", ErrInvalid, fileCAKey)
	}
	ca := authority{pair.Leaf, signer}
	files := []file{{fileCA, cert, false}, {fileCAKey, key, true}}
	for _, n := range c.Nodes {
		cert, key := before.read(n.Name+".pem"), before.read(n.Name+"-key.pem")
		if !ca.covers(cert, key, n, c.TLS.Names) {
			if cert, key, err = ca.issue(n, c.TLS.Names); err != nil {
				return nil, err
			}
		}
		files = append(files, file{n.Name + ".pem", cert, false}, file{n.Name + "-key.pem", key, true})
	}
	return files, nil
}

func newAuthority() (cert, key string, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "Unloop NATS authority"}, NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(authorityFor),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return sign(template, authority{})
}

// issue returns a certificate for a server, which its clients and the other servers accept.
func (a authority) issue(n Node, names []string) (cert, key string, err error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: n.Name}, NotBefore: time.Now().Add(-skew), NotAfter: time.Now().Add(serverFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	all := append([]string{n.Host, n.Name, "localhost", "127.0.0.1", "::1"}, names...)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return sign(template, a)
}

// renewBefore is the remaining lifetime below which a certificate is replaced.
const renewBefore = 60 * 24 * time.Hour

// covers reports whether an existing certificate can stay in use.
func (a authority) covers(cert, key string, n Node, names []string) bool {
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil || pair.Leaf.CheckSignatureFrom(a.cert) != nil || time.Until(pair.Leaf.NotAfter) < renewBefore {
		return false
	}
	for _, name := range append([]string{n.Host}, names...) {
		if pair.Leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

// sign returns a certificate for a new key, signed by an authority, or by itself for the zero
// authority.
func sign(template *x509.Certificate, by authority) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a key: %w", err)
	}
	if by.cert == nil {
		by = authority{template, private}
	}
	const serialBits = 127
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)); err != nil {
		return "", "", fmt.Errorf("make a serial number: %w", err)
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, by.cert, &private.PublicKey, by.key)
	if err != nil {
		return "", "", fmt.Errorf("sign certificate %s: %w", template.Subject.CommonName, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encode a key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}
