package bedrock

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	signedBy  = algorithm + " Credential="
	service   = "bedrock"
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
	if token != "" {
		out.Header.Set("X-Amz-Security-Token", token)
	}
	if body, err := digest(out); err == nil {
		sign(out, access{id, secret, cmp.Or(regionOf(out.URL), scopeRegion(sent), usualRegion), service}, body, time.Now())
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

// access is what a request is signed with.
type access struct{ id, secret, region, service string }

// sign signs a request by AWS's Signature Version 4. Each byte of the path is escaped once
// more than it is sent.
func sign(r *http.Request, a access, body string, now time.Time) {
	at := now.UTC().Format("20060102T150405Z")
	r.Header.Set("X-Amz-Date", at)
	names, headers := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, escape(cmp.Or(r.URL.EscapedPath(), "/")), canonicalQuery(r.URL), headers, names, body}, "\n")
	scope := strings.Join([]string{at[:8], a.region, a.service, "aws4_request"}, "/")
	hashed := sha256.Sum256([]byte(request))
	text := strings.Join([]string{algorithm, at, scope, hex.EncodeToString(hashed[:])}, "\n")
	key := []byte("AWS4" + a.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", signedBy+a.id+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(mac(key, text)))
}

// canonicalHeaders returns the names of the headers that are signed, and their lines: the
// host, the content's type and AWS's own.
func canonicalHeaders(r *http.Request) (names, lines string) {
	values := map[string]string{"host": cmp.Or(r.Host, r.URL.Host)}
	for name, list := range r.Header {
		if name = strings.ToLower(name); name == "content-type" || strings.HasPrefix(name, "x-amz-") {
			values[name] = strings.Join(strings.Fields(strings.Join(list, ",")), " ")
		}
	}
	sorted := slices.Sorted(maps.Keys(values))
	for _, name := range sorted {
		lines += name + ":" + values[name] + "\n"
	}
	return strings.Join(sorted, ";"), lines
}

// canonicalQuery returns the parameters of a query, sorted by name and value.
func canonicalQuery(u *url.URL) string {
	query := u.Query()
	for _, values := range query {
		slices.Sort(values)
	}
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, text) // hashes never fail
	return h.Sum(nil)
}

// escape escapes all bytes of a path but letters, digits, slashes and -_.~.
func escape(path string) string {
	var out strings.Builder
	for i := range len(path) {
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
