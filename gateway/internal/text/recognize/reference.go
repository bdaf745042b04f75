package recognize

import (
	"slices"
	"strings"
)

// passPrefixes begin, and passes are, the names of parameters that sign a URL or limit its
// lifetime: those of S3, Google Cloud Storage, CloudFront, Alibaba, Tencent and Discord, and
// names that other services use. None identifies the file.
var (
	passPrefixes = []string{"x-amz-", "x-goog-", "x-oss-signature", "x-oss-expires", "x-oss-date", "x-oss-credential", "x-oss-security", "q-sign", "q-key"}
	passes       = []string{
		"signature", "sig", "sign", "hmac", "expires", "expiry", "exp", "awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "key-pair-id", "policy",
		"q-ak", "q-header-list", "q-url-param-list", "auth_key", "hdnts", "hdnea", "hdntl", "hm",
	}
	// beside are further ones in URLs with a certain parameter: those of Azure and Discord.
	// Such short names may mean anything in other URLs.
	beside = map[string][]string{
		"sig": {"sv", "ss", "srt", "sr", "st", "se", "sp", "sip", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid"},
		"hm":  {"ex", "is"},
	}
	// tokens may identify the file if its path does not.
	tokens = []string{"token", "access_token", "auth_token", "jwt"}
)

// Reference returns a URL without its signature and expiry, which differ between requests
// for the same file.
func Reference(url string) string {
	path, query, found := strings.Cut(url, "?")
	if !found {
		return url
	}
	query, fragment, _ := strings.Cut(query, "#")
	pairs := strings.Split(query, "&")
	out := slices.Clone(passes)
	for _, pair := range pairs {
		out = append(out, beside[parameter(pair)]...)
	}
	if strings.ContainsAny(path[strings.LastIndexByte(path, '/')+1:], ".0123456789") {
		out = append(out, tokens...)
	}
	kept := slices.DeleteFunc(slices.Clone(pairs), func(pair string) bool {
		name := parameter(pair)
		return pair == "" || slices.Contains(out, name) || slices.ContainsFunc(passPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
	if len(kept) > 0 {
		path += "?" + strings.Join(kept, "&")
	}
	if fragment != "" {
		path += "#" + fragment
	}
	return path
}

// parameter returns the name in a pair of a query, in lower case.
func parameter(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.ToLower(name)
}
