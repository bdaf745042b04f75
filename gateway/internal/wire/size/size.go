// Package size estimates how many tokens a text has, and the media in it.
package size

import "bytes"

const (
	// bytesPerToken is the usual length of a token of English text.
	bytesPerToken = 4
	// minMedia is the length of the shortest string that may be a medium; shorter ones
	// cost little either way.
	minMedia = 1 << 10
	// sniffed is how much of a medium's base64 is decoded to find its type.
	sniffed = 512
)

// What providers charge for media, in tokens. An image is at most about 1,600
// (Anthropic: width × height / 750, scaled down; OpenAI: 85 + 170 a tile; Gemini:
// 258 a tile). Sound is 32 a second (Gemini), at 128 kbit/s. Video is 263 a second
// (Gemini), at 2 Mbit/s. A PDF is about 2,000 a page (Anthropic), at 100 KB a page.
const (
	imageTokens        = 1600
	soundBytesPerToken = 500
	videoBytesPerToken = 1000
	pdfBytesPerToken   = 50
	// minMediaTokens is the least that a sound, a video or a PDF takes.
	minMediaTokens = 258
)

// Size is the size of a body: its text in bytes, and its media in tokens.
type Size struct{ Text, Media int }

// Plus returns the sum of two sizes.
func (s Size) Plus(more Size) Size { return Size{s.Text + more.Text, s.Media + more.Media} }

// Tokens returns an estimate of the tokens: one for four bytes of text, and those of the media.
func (s Size) Tokens() int { return s.Media + s.Text/bytesPerToken }

// Of returns the size of JSON, which may be cut between two strings: then it is the sum of the
// pieces' sizes.
func Of(body []byte) Size {
	if !mayHaveMedia(body) {
		return Size{Text: len(body)}
	}
	return withMedia(body)
}

// withMedia is Of for a body that may have media.
func withMedia(body []byte) Size {
	tokens, text := 0, len(body)
	for start := bytes.IndexByte(body, '"'); start >= 0; {
		length := stringLength(body[start+1:])
		if length < 0 {
			break
		}
		content := body[start+1 : start+1+length]
		if n, ok := mediaTokens(content); ok {
			tokens, text = tokens+n, text-length
		}
		end := start + 1 + length + 1
		next := bytes.IndexByte(body[end:], '"')
		if next < 0 {
			break
		}
		start = end + next
	}
	return Size{text, tokens}
}

// mayHaveMedia reports whether a body may have media: a string that begins as a data URL,
// or one in base64, whose first bytes that are sniffed have all of one of the pieces of
// half their length that the body is cut into.
func mayHaveMedia(body []byte) bool {
	const piece = sniffed / 2
	for from := 0; from+piece <= len(body); from += piece {
		if isBase64(body[from : from+piece]) {
			return true
		}
	}
	return bytes.Contains(body, []byte(`"data:`))
}

// isBase64 reports whether a text has nothing but the characters of either alphabet of
// base64, as JSON may write them.
func isBase64(text []byte) bool {
	for _, c := range text {
		if !base64Chars[c] {
			return false
		}
	}
	return true
}

var base64Chars = func() (set [256]bool) {
	for _, c := range []byte(`ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=\` + "\r") {
		set[c] = true
	}
	return set
}()

// stringLength returns the length of the content of a JSON string that rest begins in; -1
// if the string does not end.
func stringLength(rest []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(rest[at:], '"')
		if quote < 0 {
			return -1
		}
		quote += at
		backslashes := 0
		for quote-backslashes > 0 && rest[quote-backslashes-1] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return quote
		}
		at = quote + 1
	}
}
