package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// read returns what is read from the parts of a stream.
func read(parts ...[]byte) string {
	var events bytes.Buffer
	f := newFrames(&events)
	for _, part := range parts {
		_, _ = f.Write(part)
	}
	return events.String()
}

// sealed returns a message with headers and a payload, and lengths that may be wrong.
func sealed(total, headersLen int, headers, payload []byte) []byte {
	m := binary.BigEndian.AppendUint32(nil, uint32(total))
	m = binary.BigEndian.AppendUint32(m, uint32(headersLen))
	m = binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
	m = slices.Concat(m, headers, payload)
	return binary.BigEndian.AppendUint32(m, crc32.ChecksumIEEE(m))
}

func withHeaders(headers, payload string) []byte {
	return sealed(len(headers)+len(payload)+16, len(headers), []byte(headers), []byte(payload))
}

// str returns a header whose value is a text.
func str(name, value string) string {
	return string(rune(len(name))) + name + "\x07\x00" + string(rune(len(value))) + value
}

const events = "event: messageStart\ndata: {\"role\":\"assistant\"}\n\n" +
	"event: contentBlockDelta\ndata: {\"delta\":{\"text\":\"hé\"}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

func stream() []byte {
	return slices.Concat(
		frame("messageStart", []byte(`{"role":"assistant"}`)), frame("contentBlockDelta", []byte(`{"delta":{"text":"hé"}}`)), chunk("", []byte(`{"type":"message_stop"}`)),
	)
}

func TestEventsAreReadWhereverTheStreamIsSplit(t *testing.T) {
	t.Parallel()
	whole := stream()
	if diff := cmp.Diff(events, read(whole)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for at := range whole {
		if diff := cmp.Diff(events, read(whole[:at], whole[at:])); diff != "" {
			t.Errorf("split at %d (-want +got):\n%s", at, diff)
		}
		if got := read(whole[:at]); !strings.HasPrefix(events, got) || got != "" && !strings.HasSuffix(got, "\n\n") {
			t.Errorf("cut off at %d: %q", at, got)
		}
	}
	if diff := cmp.Diff(events, read(slices.Collect(slices.Chunk(whole, 1))...)); diff != "" {
		t.Errorf("byte by byte (-want +got):\n%s", diff)
	}
}

// The messages are those of AWS's tests of the encoding.
func TestMessagesOfAWSsOwnTestsAreRead(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"000000100000000005c248eb7d98c8ff":                           "event: error\ndata: \n\n",
		"0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936": "event: error\ndata: {'foo':'bar'}\n\n",
		"0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1": "event: error\ndata: {'foo':'bar'}\n\n",
	} {
		raw, err := hex.DecodeString(message)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(raw); got != want {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

func TestDamagedMessagesAreNotRead(t *testing.T) {
	t.Parallel()
	whole, after := frame("messageStart", []byte(`{"role":"assistant"}`)), frame("messageStop", []byte(`{}`))
	next := "event: messageStop\ndata: {}\n\n"
	for at := range whole {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x20
		want := next
		if at < preludeLen {
			want = "" // where the next message begins is not known
		}
		if got := read(damaged, after); got != want {
			t.Errorf("damaged at %d: %q, want %q", at, got, want)
		}
	}
}

func TestLengthsAreBounded(t *testing.T) {
	t.Parallel()
	after := frame("messageStop", []byte(`{}`))
	next := "event: messageStop\ndata: {}\n\n"
	large := withHeaders(str(":message-type", "event"), strings.Repeat("x", maxFrame))
	for name, c := range map[string]struct {
		stream []byte
		want   string
	}{
		"nothing":                        {sealed(0, 0, nil, nil), ""},
		"less than the lengths":          {sealed(15, 0, nil, nil), ""},
		"headers beyond the message":     {sealed(20, 8, nil, make([]byte, 4)), ""},
		"headers of almost 4 GiB":        {sealed(20, 1<<32-1, nil, make([]byte, 4)), ""},
		"a message of almost 4 GiB":      {sealed(1<<32-1, 0, nil, nil), ""},
		"a message that is too large":    {large, next},
		"a message of the greatest size": {withHeaders(str(":message-type", "event"), strings.Repeat("x", maxFrame-16-len(str(":message-type", "event")))), "event: \ndata: " + strings.Repeat("x", maxFrame-16-len(str(":message-type", "event"))) + "\n\n" + next},
	} {
		var got bytes.Buffer
		f := &frames{into: &got}
		for part := range slices.Chunk(slices.Concat(c.stream, after), 1000) {
			_, _ = f.Write(part)
		}
		if got.String() != c.want {
			t.Errorf("%s: %.80q, want %.80q", name, got.String(), c.want)
		}
		if cap(f.held) > 2*maxFrame {
			t.Errorf("%s: %d bytes are held", name, cap(f.held))
		}
	}
}

func TestHeadersOfEachTypeArePassed(t *testing.T) {
	t.Parallel()
	event := str(":event-type", "metadata") + str(":message-type", "event")
	for name, c := range map[string]struct{ headers, payload, want string }{
		"each type": {
			"\x01a\x00" + "\x01b\x01" + "\x01c\x02z" + "\x01d\x03zz" + "\x01e\x04zzzz" + "\x01f\x05zzzzzzzz" + "\x01g\x06\x00\x02zz" + "\x01h\x08zzzzzzzz" + "\x01i\x09zzzzzzzzzzzzzzzz" + event,
			"{}", "event: metadata\ndata: {}\n\n",
		},
		"an exception":      {str(":exception-type", "throttlingException") + str(":message-type", "exception"), `{"message":"slow"}`, "event: error\ndata: {\"message\":\"slow\"}\n\n"},
		"an error":          {str(":error-code", "500") + str(":message-type", "error"), "", "event: error\ndata: \n\n"},
		"an unknown type":   {"\x01a\x0a" + event, "{}", "event: error\ndata: {}\n\n"},
		"a cut-off value":   {"\x01a\x07\xff\xff" + event, "{}", "event: error\ndata: {}\n\n"},
		"a cut-off length":  {"\x01a\x07\x00", "{}", "event: error\ndata: {}\n\n"},
		"a cut-off name":    {"\xffa", "{}", "event: error\ndata: {}\n\n"},
		"lines in a name":   {str(":event-type", "a\n\nb") + str(":message-type", "event"), "{\n\r}", "event: a  b\ndata: {  }\n\n"},
		"a chunk":           {str(":event-type", "chunk") + str(":message-type", "event"), `{"bytes":"eyJ0eXBlIjoicGluZyJ9","p":"abc"}`, "event: ping\ndata: {\"type\":\"ping\"}\n\n"},
		"a chunk of no one": {str(":event-type", "chunk") + str(":message-type", "event"), `{"bytes":"eA=="}`, "event: chunk\ndata: {\"bytes\":\"eA==\"}\n\n"},
		"a broken chunk":    {str(":event-type", "chunk") + str(":message-type", "event"), `{"bytes":"!`, "event: chunk\ndata: {\"bytes\":\"!\n\n"},
	} {
		if diff := cmp.Diff(c.want, read(withHeaders(c.headers, c.payload))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzFrames expects that no stream makes a reader panic, and that it does not matter how
// the stream is split.
func FuzzFrames(f *testing.F) {
	f.Add(stream(), 7)
	f.Add(sealed(1<<32-1, 0, nil, nil), 1)
	f.Add(withHeaders("\x01a\x07\xff\xff", "{}"), 20)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		at = max(0, min(at, len(text)))
		if whole, split := read(text), read(text[:at], text[at:]); whole != split {
			t.Errorf("%q, and %q if it is split at %d", whole, split, at)
		}
	})
}
