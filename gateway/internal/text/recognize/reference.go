package recognize

import (
	"slices"
	"strings"
)

// passPrefixes begin, and passes are, the parameters of a URL that let its holder read a
// file for a while: the signed URLs of S3, Google Cloud Storage, CloudFront, Alibaba,
// Tencent and Discord, and the names that other services use. None says which file it is.
var (
	passPrefixes = []string{"x-amz-", "x-goog-", "x-oss-signature", "x-oss-expires", "x-oss-date", "x-oss-credential", "x-oss-security", "q-sign", "q-key"}
	passes       = []string{
		"signature", "sig", "sign", "hmac", "expires", "expiry", "exp", "awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "key-pair-id", "policy",
		"q-ak", "q-header-list", "q-url-param-list", "auth_key", "hdnts", "hdnea", "hdntl", "hm",
	}
	// beside are further ones of URLs that have a certain parameter: those of Azure and of
	// Discord. Elsewhere such short names may say anything.
	beside = map[string][]string{
		"sig": {"sv", "ss", "srt", "sr", "st", "se", "sp", "sip", "spr", "skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid"},
		"hm":  {"ex", "is"},
	}
	// tokens may be all that names a file, if its path does not.
	tokens = []string{"token", "access_token", "auth_token", "jwt"}
)

// Reference returns a URL without its signature and its expiry, which change from one
// request to the next although the file is the same.
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

// parameter returns the name of a query's pair in lower case.
func parameter(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.ToLower(name)
}
