package route

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// unescapings is how often an upstream may decode a path.
const unescapings = 3

// plain reports whether a path is written in the usual way, so that its clean form is the same.
func plain(escaped string) bool {
	return strings.HasPrefix(escaped, "/") && !strings.ContainsAny(escaped, `%\;`) && !strings.Contains(escaped, "//") &&
		!strings.Contains(escaped, "/.") && (escaped == "/" || !strings.HasSuffix(escaped, "/"))
}

// clean returns a path as upstreams understand it: decoded, without empty and dot segments
// and final slashes.
func clean(escaped string) string {
	return path.Clean("/" + unescaped(escaped))
}

// unescaped returns a path decoded once. One with a faulty escape stays as it is.
func unescaped(escaped string) string {
	if decoded, err := url.PathUnescape(escaped); err == nil {
		return decoded
	}
	return escaped
}

// loose is clean for an upstream that decodes several times, reads backslashes as slashes,
// and drops the parameters of segments, spaces at the end, and everything behind a question
// mark, a number sign or a zero byte.
func loose(escaped string) string {
	for range unescapings {
		escaped = unescaped(escaped)
	}
	if end := strings.IndexAny(escaped, "?#\x00"); end >= 0 {
		escaped = escaped[:end]
	}
	segments := strings.Split(strings.ReplaceAll(strings.TrimSpace(escaped), `\`, "/"), "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return path.Clean("/" + strings.Join(segments, "/"))
}

// escapes reports whether a path leads out of the folder that it begins in, for an upstream
// that decodes it several times and reads backslashes as slashes.
func escapes(escaped string) bool {
	if !strings.ContainsAny(escaped, "%.") {
		return false
	}
	for range unescapings {
		if climbs(escaped) {
			return true
		}
		escaped = unescaped(escaped)
	}
	return climbs(escaped)
}

func climbs(p string) bool {
	depth := 0
	for segment := range strings.FieldsFuncSeq(p, func(c rune) bool { return c == '/' || c == '\\' }) {
		name, _, _ := strings.Cut(segment, ";") // some servers drop parameters first
		switch strings.Map(printed, name) {
		case ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// printed drops spaces and control characters, as some servers do.
func printed(c rune) rune {
	if c <= ' ' {
		return -1
	}
	return c
}

// read sets the paths that the upstream may understand, given the path as it was written
// and its rest behind the upstream's name.
func (t *Target) read(written, rest string) {
	if t.URL.Path == written && plain(written) {
		t.Canonical = written
		return
	}
	t.Escapes = escapes(rest)
	inner := clean(rest)
	t.Canonical = inner
	if rest != written && upstreamOf(t.Upstream) == nil {
		t.Canonical = "/" + t.Upstream + inner // another server's path
	}
	for _, p := range []string{inner, clean(t.URL.EscapedPath()), clean(written), loose(rest), loose(t.URL.EscapedPath()), loose(written)} {
		if p != written && !slices.Contains(t.Paths, p) {
			t.Paths = append(t.Paths, p)
		}
	}
}
