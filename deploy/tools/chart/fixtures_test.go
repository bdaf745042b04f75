package chart

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

var services = []string{"gateway", "detector", "embedworker", "notifier"}

// Keys that the secrets of the tests hold.
const (
	adminKey   = "an-admin-key-of-the-tests"
	gatewayKey = "a-gateway-key-of-the-tests"
)

// existing are the secrets, ConfigMaps and claims that the sets of values name, as a cluster would have them.
func existing(t *testing.T) map[string]map[string]string {
	t.Helper()
	certificate, key := selfSigned(t)
	pair := map[string]string{"tls.crt": certificate, "tls.key": key}
	files := map[string]map[string]string{
		"unloop-nats": {}, "unloop-nats-client": pair, "gateway-tls": pair,
		"nats-ca": {"ca.crt": certificate}, "company-ca": {"ca.crt": certificate},
		"unloop-admin":  {"keys": "# keys\n" + adminKey + "\nanother-admin-key-of-the-tests\n", "prometheus": adminKey},
		"provider-keys": {"openai": "sk-openai-of-the-tests", "local": "sk-local-of-the-tests"},
		"unloop-keys":   {"keys": gatewayKey + "\n"},
		"unloop-hash":   {"key": strings.Repeat("0f", 32)},
		"otel-headers":  {"headers": "authorization=Bearer x"},
		"unloop-redis":  {"url": "redis://127.0.0.1:1"},
		"hook-secrets":  {"signing": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
		"webhook":       {"url": "https://hooks.example.com/secret", "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
		"models":        {},
		"company-policies": {"bundle.yaml": "bundle_version: 1\npolicies:\n  - id: company\n    spec: {selector: {pathPrefix: /v1/}, " +
			"prompt: {max_hits: 3, window_seconds: 60, cooldown_seconds: 30, action: reject}}\n"},
		"company-endpoints": {"notify.yaml": "endpoints: [{name: hooks, webhook: {url: \"https://hooks.example.com/\"}}]\nroutes: [{name: all, endpoints: [hooks]}]\n"},
	}
	for _, service := range services {
		creds, seed := identity(t)
		user := map[string]string{service + ".creds": creds, service + ".nk": seed, service + ".user": service, service + ".password": "secret"}
		files["nats-"+service] = user
		maps.Copy(files["unloop-nats"], user)
	}
	return files
}

// identity returns a credentials file and a seed of a user that no server knows.
func identity(t *testing.T) (creds, seed string) {
	t.Helper()
	account, err := nkeys.CreateAccount()
	must(t, err)
	return identityOf(t, account)
}

// identityOf returns a credentials file and a seed of a user of an account.
func identityOf(t *testing.T, account nkeys.KeyPair) (creds, seed string) {
	t.Helper()
	user, err := nkeys.CreateUser()
	must(t, err)
	token, err := jwt.NewUserClaims(public(t, user)).Encode(account)
	must(t, err)
	secret, err := user.Seed()
	must(t, err)
	file, err := jwt.FormatUserConfig(token, secret)
	must(t, err)
	return string(file), string(secret)
}

// selfSigned returns a certificate of this machine's addresses that is its own authority, and its key.
var selfSigned = func() func(*testing.T) (certificate, key string) {
	once := sync.OnceValues(func() (string, string) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
		if err != nil {
			panic(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(private)
		if err != nil {
			panic(err)
		}
		encode := func(kind string, bytes []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
		}
		return encode("CERTIFICATE", signed), encode("PRIVATE KEY", secret)
	})
	return func(t *testing.T) (string, string) { t.Helper(); return once() }
}()

func public(t *testing.T, key nkeys.KeyPair) string {
	t.Helper()
	text, err := key.PublicKey()
	must(t, err)
	return text
}

// withOperator returns the configuration of a server that knows accounts by their tokens, and credentials of
// a user of one that may use JetStream.
func withOperator(t *testing.T) (config, creds string) {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	must(t, err)
	var accounts [2]nkeys.KeyPair // the servers' own, and that of the user
	var tokens [2]string
	for i := range accounts {
		accounts[i], err = nkeys.CreateAccount()
		must(t, err)
		claims := jwt.NewAccountClaims(public(t, accounts[i]))
		if i == 1 {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		tokens[i], err = claims.Encode(operator)
		must(t, err)
	}
	claims := jwt.NewOperatorClaims(public(t, operator))
	claims.SystemAccount = public(t, accounts[0])
	token, err := claims.Encode(operator)
	must(t, err)
	creds, _ = identityOf(t, accounts[1])
	return fmt.Sprintf("operator: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
		token, public(t, accounts[0]), tokens[0], public(t, accounts[1]), tokens[1]), creds
}
