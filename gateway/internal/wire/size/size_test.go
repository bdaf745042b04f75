package size

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// medium is a file of a kind and size, in base64.
func medium(magic string, size int) string {
	return base64.StdEncoding.EncodeToString(append([]byte(magic), make([]byte, size-len(magic))...))
}

func TestMediaCostWhatProvidersTakeForThem(t *testing.T) {
	t.Parallel()
	const (
		png = "\x89PNG\r\n\x1a\n"
		pdf = "%PDF-1.7"
		wav = "RIFF\x00\x00\x00\x00WAVE"
		mp4 = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42mp41"
	)
	photo := medium(png, 750_000)
	for name, c := range map[string]struct {
		body        string
		least, most int
	}{
		"Chat Completions, an image": {fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`, photo), 1600, 1700},
		"Messages, an image":         {fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":%q}}]}]}`, photo), 1600, 1700},
		"Gemini, two images":         {fmt.Sprintf(`{"contents":[{"parts":[{"inlineData":{"data":%q}},{"inlineData":{"data":%q}}]}]}`, photo, photo), 3200, 3300},
		"an escaped solidus":         {fmt.Sprintf(`{"url":"%s"}`, strings.ReplaceAll("data:image/png;base64,"+medium(png+"\xff\xff\xff", 9000), "/", `\/`)), 1600, 1700},
		"a minute of sound":          {fmt.Sprintf(`{"input_audio":{"data":%q,"format":"wav"}}`, medium(wav, 60*16_000)), 1900, 2000},
		"a PDF of ten pages":         {fmt.Sprintf(`{"file_data":"data:application/pdf;base64,%s"}`, medium(pdf, 1_000_000)), 19_900, 20_100},
		"a video":                    {fmt.Sprintf(`{"data":%q}`, medium(mp4, 2_500_000)), 2400, 2600},
		"a text":                     {fmt.Sprintf(`{"content":%q}`, strings.Repeat("word ", 1000)), 1250, 1260},
		"a text of one word":         {fmt.Sprintf(`{"content":%q}`, strings.Repeat("a", 8000)), 2000, 2010},
		"text in base64":             {fmt.Sprintf(`{"content":%q}`, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("word ", 900)))), 1500, 1510},
		"a text that begins as one":  {fmt.Sprintf(`{"content":%q}`, medium(png, 900)+strings.Repeat(" and so on", 100)), 550, 560},
		"a photo of a phone":         {fmt.Sprintf(`{"inlineData":{"mimeType":"image/heic","data":%q}}`, medium("\x00\x00\x00\x18ftypheic", 750_000)), 1600, 1700},
		"an MP3 without a tag":       {fmt.Sprintf(`{"input_audio":{"format":"mp3","data":%q}}`, medium("\xff\xfb\x90\x00", 500_000)), 950, 1050},
		"a FLAC":                     {fmt.Sprintf(`{"data":%q}`, medium("fLaC", 500_000)), 950, 1050},
		"an M4A":                     {fmt.Sprintf(`{"data":%q}`, medium("\x00\x00\x00\x18ftypM4A \x00\x00\x00\x00mp42", 500_000)), 950, 1050},
		"a film of a phone":          {fmt.Sprintf(`{"data":%q}`, medium("\x00\x00\x00\x14ftypqt  ", 2_500_000)), 2400, 2600},
		"an image of another kind":   {fmt.Sprintf(`{"url":"data:image/x-own;base64,%s"}`, medium("\x01own", 750_000)), 1600, 1700},
		"a document of Word":         {fmt.Sprintf(`{"file_data":"data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,%s"}`, medium("PK\x03\x04", 500_000)), 9950, 10_100},
		"a table":                    {fmt.Sprintf(`{"file_data":"data:text/csv;base64,%s"}`, base64.StdEncoding.EncodeToString([]byte(strings.Repeat("1,2\n", 3000)))), 3000, 3050},
		"an old film":                {fmt.Sprintf(`{"data":%q}`, medium("FLV\x01", 2_500_000)), 2400, 2600},
		"a sound in Ogg":             {fmt.Sprintf(`{"data":%q}`, medium("OggS\x00", 500_000)), 950, 1050},
		"a data URL that is text":    {fmt.Sprintf(`{"url":"data:text/plain,%s"}`, strings.Repeat("word ", 1000)), 1250, 1260},
		"base64 for URLs":            {fmt.Sprintf(`{"data":%q}`, base64.URLEncoding.EncodeToString(append([]byte(png+"\xff\xff\xff"), make([]byte, 9000)...))), 1600, 1700},
		"an unknown file":            {fmt.Sprintf(`{"content":%q}`, medium("\x01own", 6000)), 2000, 2010},
	} {
		if got := Of([]byte(c.body)).Tokens(); got < c.least || got > c.most {
			t.Errorf("%s: %d tokens, want %d to %d", name, got, c.least, c.most)
		}
	}
}

func TestTextIsNeverMoreThanItsBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOf(rapid.SampledFrom([]byte(`"\\{}[]:,ab `))).Draw(t, "body")
		if got := Of(body).Tokens(); got != len(body)/4 {
			t.Fatalf("%q: %d tokens", body, got)
		}
	})
}

func TestBodiesWithoutMediaAreFoundWithoutReadingTheirStrings(t *testing.T) {
	t.Parallel()
	png := medium("\x89PNG\r\n\x1a\n", 900)
	text := strings.Repeat("words and code() ", 200)
	for before := range 600 {
		with := []byte(`{"a":"` + text[:before] + `","b":"` + png + `","c":"` + text + `"}`)
		without := []byte(`{"a":"` + text[:before] + `","c":"` + text + `"}`)
		if !mayHaveMedia(with) || Of(with) != withMedia(with) || Of(with).Tokens() < imageTokens {
			t.Fatalf("%d bytes before a picture: %d tokens", before, Of(with).Tokens())
		}
		if mayHaveMedia(without) || Of(without) != withMedia(without) {
			t.Fatalf("%d bytes of text: %d tokens, want %+v", before, Of(without).Tokens(), withMedia(without))
		}
	}
}
