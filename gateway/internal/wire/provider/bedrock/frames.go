package bedrock

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/unloop/unloop/gateway/internal/wire/provider"
)

// typeFrames is the type of a stream of binary messages.
const typeFrames = "application/vnd.amazon.eventstream"

const (
	// preludeLen is the length of the lengths before a message with their checksum, sumLen
	// that of a checksum.
	preludeLen, sumLen = 12, 4
	// maxFrame bounds the messages that are read, in bytes. Larger ones pass unread.
	maxFrame = 1 << 20
	// typeString is the type of a header's value that is a text.
	typeString = 7
	// chunkName is the name of events that hold one of the model's own format.
	chunkName = "chunk"
)

// frames writes the messages of a stream as server-sent events.
type frames struct {
	into io.Writer
	held []byte
	// skipped are the bytes of a large message that are still to come.
	skipped int
	// lost says that the lengths were wrong, so that nothing more can be read.
	lost bool
}

func newFrames(into io.Writer) io.Writer { return &frames{into: into} }

// Write takes the next bytes. It never fails.
func (f *frames) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && !f.lost; {
		if f.skipped > 0 {
			n := min(f.skipped, len(rest))
			f.skipped, rest = f.skipped-n, rest[n:]
			continue
		}
		want := preludeLen
		if len(f.held) >= preludeLen {
			want = int(binary.BigEndian.Uint32(f.held))
		}
		n := min(want-len(f.held), len(rest))
		f.held, rest = append(f.held, rest[:n]...), rest[n:]
		switch {
		case len(f.held) < want:
		case want == preludeLen:
			f.begin()
		default:
			f.end()
		}
	}
	return len(p), nil
}

// begin checks the lengths of a message.
func (f *frames) begin() {
	total, headers := binary.BigEndian.Uint32(f.held), binary.BigEndian.Uint32(f.held[4:])
	switch {
	case binary.BigEndian.Uint32(f.held[8:]) != crc32.ChecksumIEEE(f.held[:8]), uint64(total) < preludeLen+sumLen+uint64(headers):
		f.lost, f.held = true, nil
	case total > maxFrame:
		f.skipped, f.held = int(total)-len(f.held), f.held[:0]
	}
}

// end writes the event of a whole message.
func (f *frames) end() {
	body := f.held[:len(f.held)-sumLen]
	if binary.BigEndian.Uint32(f.held[len(body):]) == crc32.ChecksumIEEE(body) {
		headers := preludeLen + int(binary.BigEndian.Uint32(body[4:]))
		name, payload := eventOf(body[preludeLen:headers]), body[headers:]
		if name == chunkName {
			name, payload = inner(payload)
		}
		_, _ = f.into.Write(slices.Concat([]byte("event: "), line([]byte(name)), []byte("\ndata: "), line(payload), []byte("\n\n"))) // scanners never fail
	}
	f.held = f.held[:0]
}

// line returns a text without the ends of lines, which are white space in JSON.
func line(text []byte) []byte {
	const ends = "\r\n"
	if !bytes.ContainsAny(text, ends) {
		return text
	}
	text = bytes.Clone(text)
	for i, c := range text {
		if strings.IndexByte(ends, c) >= 0 {
			text[i] = ' '
		}
	}
	return text
}

// inner returns the event of Anthropic's in a chunk, and its name.
func inner(payload []byte) (name string, document []byte) {
	var chunk struct{ Bytes []byte }
	var event struct{ Type string }
	if json.Unmarshal(payload, &chunk) != nil || json.Unmarshal(chunk.Bytes, &event) != nil {
		return chunkName, payload
	}
	return event.Type, chunk.Bytes
}

// eventOf returns the name of an event from a message's headers; "error" for what is none.
func eventOf(headers []byte) string {
	kind, name := "", ""
	for len(headers) > 1 {
		length := int(headers[0])
		if len(headers) < length+2 {
			break
		}
		of, valueType := string(headers[1:1+length]), headers[1+length]
		value, rest, ok := valueOf(headers[length+2:], valueType)
		if !ok {
			break
		}
		headers = rest
		switch of {
		case ":message-type":
			kind = string(value)
		case ":event-type":
			name = string(value)
		}
	}
	if kind != "event" {
		return "error"
	}
	return name
}

// valueOf returns the value of a header, and what follows it.
func valueOf(b []byte, valueType byte) (value, rest []byte, ok bool) {
	sizes := [...]int{0, 0, 1, 2, 4, 8, -1, -1, 8, 16}
	if int(valueType) >= len(sizes) {
		return nil, nil, false
	}
	size := sizes[valueType]
	if size < 0 {
		if len(b) < 2 {
			return nil, nil, false
		}
		size, b = int(binary.BigEndian.Uint16(b)), b[2:]
	}
	if len(b) < size {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

// frame returns a message with an event.
func frame(name string, document []byte) []byte {
	var headers []byte
	for _, h := range [][2]string{{":event-type", name}, {":content-type", provider.TypeJSON}, {":message-type", "event"}} {
		headers = append(append(append(headers, byte(len(h[0]))), h[0]...), typeString)
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(preludeLen+len(headers)+len(document)+sumLen))
	out = binary.BigEndian.AppendUint32(out, uint32(len(headers)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, headers...), document...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// chunk returns a message with an event of Anthropic's.
func chunk(_ string, document []byte) []byte {
	return frame(chunkName, provider.JSON(map[string]string{"bytes": base64.StdEncoding.EncodeToString(document)}))
}
