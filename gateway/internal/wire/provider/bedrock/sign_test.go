package bedrock

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// The requests and signatures are those of AWS's test suite for Signature Version 4.
func TestSignaturesAreThoseOfAWSsTestSuite(t *testing.T) {
	t.Parallel()
	at := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	for name, c := range map[string]struct {
		method, target, body string
		header               http.Header
		signed, signature    string
	}{
		"get-vanilla":                      {"GET", "/", "", nil, "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-unreserved":                   {"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "", nil, "host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		"get-vanilla-query-order-key-case": {"GET", "/?Param2=value2&Param1=value1", "", nil, "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"get-vanilla-query-order-value":    {"GET", "/?Param1=value2&Param1=value1", "", nil, "host;x-amz-date", "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
		"post-vanilla":                     {"POST", "/", "", nil, "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-x-www-form-urlencoded": {
			"POST", "/", "Param1=value1", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
			"content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
		"post-sts-header-before": {
			"POST", "/", "", http.Header{"X-Amz-Security-Token": {"AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="}},
			"host;x-amz-date;x-amz-security-token", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead",
		},
	} {
		r := httptest.NewRequest(c.method, "https://example.amazonaws.com"+c.target, strings.NewReader(c.body))
		if c.header != nil {
			r.Header = c.header
		}
		body := []byte(c.body)
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		sum, err := digest(r)
		if err != nil {
			t.Fatal(err)
		}
		sign(r, keys, "us-east-1", "service", sum, at)
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + c.signed + ", Signature=" + c.signature
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
}

func TestKeysAreSentOrSignWith(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host, key, sent string
		want            []string
		token           string
	}{
		"an API key":            {"bedrock-runtime.eu-central-1.amazonaws.com", "ABSKabc", "", []string{"Bearer ABSKabc"}, ""},
		"an access key":         {"bedrock-runtime.eu-central-1.amazonaws.com", "AKID:secret", "", []string{"Credential=AKID/", "/eu-central-1/bedrock/", "SignedHeaders=content-type;host;x-amz-date,"}, ""},
		"with a token":          {"bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "ASIA:secret:to:ken", "", []string{"Credential=ASIA/", "/us-gov-west-1/bedrock/", ";x-amz-security-token,"}, "to:ken"},
		"a private endpoint":    {"vpce-1.bedrock-runtime.us-west-2.vpce.amazonaws.com", "AKID:secret", "", []string{"/us-west-2/bedrock/"}, ""},
		"the client's region":   {"bedrock.internal", "AKID:secret", "AWS4-HMAC-SHA256 Credential=CLIENT/20260522/ap-south-1/bedrock/aws4_request, SignedHeaders=host, Signature=00", []string{"Credential=AKID/", "/ap-south-1/bedrock/"}, ""},
		"no region":             {"bedrock.internal", "AKID:secret", "", []string{"/us-east-1/bedrock/"}, ""},
		"a signature of no one": {"bedrock.internal", "AKID:secret", "AWS4-HMAC-SHA256 Credential=", []string{"/us-east-1/bedrock/"}, ""},
	} {
		out := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: c.host, Path: "/model/m/converse"}, Header: http.Header{
			"Content-Type": {"application/json"}, "X-Amz-Security-Token": {"client's"}, "X-Amz-Date": {"client's"}, "X-Amz-Content-Sha256": {"client's"},
		}}
		putKey(out, http.Header{"Authorization": {c.sent}}, c.key)
		got := out.Header.Get("Authorization")
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %s, want %s in it", name, got, part)
			}
		}
		if token := out.Header.Get("X-Amz-Security-Token"); strings.Contains(c.key, ":") && token != c.token || strings.Contains(got, "secret") {
			t.Errorf("%s: the token is %q, want %q; %s", name, token, c.token, got)
		}
	}
}

// What is not in memory can't be signed, and the client's own signature would be wrong.
func TestBodiesThatPassUnreadAreNotSigned(t *testing.T) {
	t.Parallel()
	out := httptest.NewRequest(http.MethodPost, "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/invoke", io.NopCloser(strings.NewReader("x")))
	if putKey(out, http.Header{}, "AKID:secret"); out.Header.Get("Authorization") != "" {
		t.Errorf("signed: %v", out.Header)
	}
}
