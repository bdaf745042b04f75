package size

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
)

// mediaTokens returns an estimate of the tokens of a medium in base64, bare or as a data
// URL; false for any other string.
func mediaTokens(s []byte) (int, bool) {
	if len(s) < minMedia {
		return 0, false
	}
	declared := ""
	if bytes.HasPrefix(s, []byte("data:")) {
		comma := bytes.IndexByte(s[:sniffed], ',')
		if comma < 0 || !bytes.HasSuffix(s[:comma], []byte(";base64")) {
			return 0, false
		}
		declared, _, _ = strings.Cut(strings.ReplaceAll(string(s[len("data:"):comma]), `\/`, "/"), ";")
		s = s[comma+1:]
	}
	size := len(s) / 4 * 3
	if tokens, ok := kindTokens(mediaType(s), size); ok || declared == "" {
		return tokens, ok
	}
	return declaredTokens(declared, size)
}

// mediaType returns the type of a medium in base64 by its first bytes; "" for a string that
// is no base64.
func mediaType(s []byte) string {
	if bytes.IndexByte(s, ' ') >= 0 || bytes.IndexByte(s, '\n') >= 0 {
		return "" // as nearly every text
	}
	head := s[:min(len(s), sniffed)/4*4]
	head = bytes.ReplaceAll(head, []byte(`\/`), []byte("/"))
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(head)))
	coding := base64.StdEncoding
	if bytes.ContainsAny(head, "-_") {
		coding = base64.URLEncoding
	}
	n, err := coding.Decode(raw, head[:len(head)/4*4])
	if err != nil {
		return ""
	}
	return sniff(raw[:n])
}

// sniff returns the type of a file by its first bytes. It knows types that providers take
// and browsers do not.
func sniff(head []byte) string {
	switch {
	case len(head) >= 12 && string(head[4:8]) == "ftyp":
		return brandType(string(head[8:12]))
	case bytes.HasPrefix(head, []byte("fLaC")):
		return "audio/flac"
	case bytes.HasPrefix(head, []byte("FLV\x01")), bytes.HasPrefix(head, []byte("\x30\x26\xb2\x75")), // WMV
		bytes.HasPrefix(head, []byte("\x00\x00\x01\xba")), bytes.HasPrefix(head, []byte("\x00\x00\x01\xb3")): // MPEG
		return "video/mpeg"
	case len(head) > 1 && head[0] == 0xff && head[1]&0xe0 == 0xe0: // a frame of MP3 or AAC
		return "audio/mpeg"
	}
	return http.DetectContentType(head)
}

// brandType returns the type of a file in ISO's base media format.
func brandType(brand string) string {
	switch brand {
	case "heic", "heix", "heim", "heis", "hevc", "mif1", "msf1", "avif", "avis":
		return "image/heif"
	case "M4A ", "M4B ":
		return "audio/mp4"
	default:
		return "video/mp4"
	}
}

func kindTokens(kind string, size int) (int, bool) {
	switch family, _, _ := strings.Cut(kind, "/"); {
	case family == "image":
		return imageTokens, true
	case family == "audio", kind == "application/ogg":
		return max(size/soundBytesPerToken, minMediaTokens), true
	case family == "video":
		return max(size/videoBytesPerToken, minMediaTokens), true
	case kind == "application/pdf":
		return max(size/pdfBytesPerToken, minMediaTokens), true
	default:
		return 0, false
	}
}

// declaredTokens returns an estimate for a file of unknown bytes by the type that its data
// URL declares: text by its length, and documents of any kind as PDFs.
func declaredTokens(kind string, size int) (int, bool) {
	if strings.HasPrefix(kind, "text/") || kind == "application/json" {
		return size / bytesPerToken, true
	}
	if tokens, ok := kindTokens(kind, size); ok {
		return tokens, true
	}
	return kindTokens("application/pdf", size)
}
