package bedrock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

const (
	signedBy = "AWS4-HMAC-SHA256 Credential="
	service  = "bedrock"
	// usualRegion is that of requests to hosts that name none.
	usualRegion = "us-east-1"
)

// isSigned reports whether a signature covers the request's body.
func isSigned(h http.Header) bool { return strings.HasPrefix(h.Get("Authorization"), signedBy) }

// putKey puts in a Bedrock API key, or signs the request with an access key, which is
// written as ID:SECRET or ID:SECRET:TOKEN. A body that is not in memory can't be signed;
// Bedrock refuses the request then. It takes no bodies of that length.
func putKey(out *http.Request, sent http.Header, key string) {
	id, rest, isAccess := strings.Cut(key, ":")
	if !isAccess {
		provider.PutBearer(out, sent, key)
		return
	}
	for _, name := range []string{"X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"} {
		out.Header.Del(name)
	}
	secret, token, _ := strings.Cut(rest, ":")
	if body, err := digest(out); err == nil {
		region := cmp.Or(regionOf(out.URL), scopeRegion(sent), usualRegion)
		sign(out, aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}, region, service, body, time.Now())
	}
}

// regional finds the region in a host of Bedrock's.
var regional = regexp.MustCompile(`(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.`)

// regionOf returns the region that a host of AWS names; "" for none.
func regionOf(u *url.URL) string {
	if found := regional.FindStringSubmatch(u.Hostname()); found != nil {
		return found[1]
	}
	return ""
}

// scopeRegion returns the region of a client's own signature; "" for none.
func scopeRegion(sent http.Header) string {
	_, scope, _ := strings.Cut(sent.Get("Authorization"), signedBy)
	if parts := strings.Split(scope, "/"); len(parts) > 2 {
		return parts[2]
	}
	return ""
}

// digest returns the SHA-256 of a request's body, in hex. A body that is not in memory has
// none.
func digest(r *http.Request) (string, error) {
	sum := sha256.New()
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case r.GetBody == nil:
		return "", http.ErrBodyNotAllowed
	default:
		body, err := r.GetBody()
		if err != nil {
			return "", err
		}
		if _, err := io.Copy(sum, body); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// signer signs by AWS's Signature Version 4.
var signer = v4.NewSigner()

// sign signs a request whose body has a digest: its host, the type of its content, and AWS's own
// headers.
func sign(r *http.Request, keys aws.Credentials, region, service, body string, now time.Time) {
	target := *r.URL
	signed := &http.Request{Method: r.Method, URL: &target, Host: r.Host, Header: http.Header{}}
	for name, values := range r.Header {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz-") {
			signed.Header[name] = values
		}
	}
	if signer.SignHTTP(r.Context(), keys, signed, body, service, region, now) != nil {
		return // Bedrock refuses the request
	}
	maps.Copy(r.Header, signed.Header)
}
