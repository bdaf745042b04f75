package wordpiece_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unloop/unloop/embedworker/internal/wordpiece"
	"github.com/unloop/unloop/embedworker/realparts"
)

// small is a vocabulary that fits on a page: an id is the index of its word.
var small = strings.Fields(`[PAD] [UNK] [CLS] [SEP] [MASK] un ##aff ##able a ##b cafe ! , 中 ##c ab
	σ ##ς i ß x ; [ ] # istanbul`)

func id(words ...string) []int32 {
	ids := []int32{}
	for _, w := range words {
		ids = append(ids, int32(slices.Index(small, w)))
	}
	return ids
}

func loadVocab(tb testing.TB, folder string) *wordpiece.Tokenizer {
	tb.Helper()
	vocab, err := os.ReadFile(filepath.Join(folder, "vocab.txt"))
	if err != nil {
		tb.Fatal(err)
	}
	tokenizer, err := wordpiece.ParseVocab(vocab, wordpiece.DefaultOptions())
	if err != nil {
		tb.Fatal(err)
	}
	return tokenizer
}

func smallTokenizer(tb testing.TB, o wordpiece.Options) *wordpiece.Tokenizer {
	tb.Helper()
	tokenizer, err := wordpiece.ParseVocab([]byte(strings.Join(small, "\r\n")+"\n"), o)
	if err != nil {
		tb.Fatal(err)
	}
	return tokenizer
}

func TestTokens(t *testing.T) {
	t.Parallel()
	keep := false
	cased := wordpiece.Options{SplitCJK: true}
	accented := wordpiece.Options{LowerCase: true, StripAccents: &keep}
	for name, c := range map[string]struct {
		options wordpiece.Options
		text    string
		want    []string
	}{
		"longest pieces from the left":           {wordpiece.DefaultOptions(), "unaffable", []string{"un", "##aff", "##able"}},
		"the longest entry wins":                 {wordpiece.DefaultOptions(), "abc", []string{"ab", "##c"}},
		"a word with an unknown rest is unknown": {wordpiece.DefaultOptions(), "unaffablez a", []string{"[UNK]", "a"}},
		"punctuation is a word of its own":       {wordpiece.DefaultOptions(), "a,a!!", []string{"a", ",", "a", "!", "!"}},
		"accents and case go":                    {wordpiece.DefaultOptions(), "CAFÉ cafe\u0301", []string{"cafe", "cafe"}},
		"ideographs stand apart":                 {wordpiece.DefaultOptions(), "a中a", []string{"a", "中", "a"}},
		"control characters vanish":              {wordpiece.DefaultOptions(), "a\x00\u200bb", []string{"ab"}},
		"bytes that are not UTF-8 vanish":        {wordpiece.DefaultOptions(), "a\xff\xe4\xb8b", []string{"ab"}},
		"a sigma at the end is a final one":      {wordpiece.DefaultOptions(), "ΣΣ", []string{"σ", "##ς"}},
		"special tokens are found in the text":   {wordpiece.DefaultOptions(), "a[SEP]a", []string{"a", "[SEP]", "a"}},
		"special tokens are case sensitive":      {wordpiece.DefaultOptions(), "[x]", []string{"[", "x", "]"}},
		"a continuing prefix is punctuation":     {wordpiece.DefaultOptions(), "##", []string{"#", "#"}},
		"nothing":                                {wordpiece.DefaultOptions(), " \t\n", nil},
		"a cased vocabulary keeps case":          {cased, "A a", []string{"[UNK]", "a"}},
		"accents are kept where asked":           {accented, "é i", []string{"[UNK]", "i"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := smallTokenizer(t, c.options).Append(nil, c.text), id(c.want...); !slices.Equal(got, want) {
				t.Errorf("%q: got %v, want %v", c.text, got, want)
			}
		})
	}
}

func TestWordsOverTheLimitAreUnknown(t *testing.T) {
	t.Parallel()
	tokenizer := loadVocab(t, realparts.MiniLM(t))
	if n := len(tokenizer.Append(nil, strings.Repeat("x", 101))); n != 1 {
		t.Errorf("101 characters gave %d tokens, want the unknown one", n)
	}
	if n := len(tokenizer.Append(nil, strings.Repeat("x", 100))); n < 2 {
		t.Errorf("100 characters gave %d tokens, want pieces", n)
	}
}

func TestUnusableFilesAreRefused(t *testing.T) {
	t.Parallel()
	const tail = `"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",1],"cls":["[CLS]",2]}}`
	for name, c := range map[string]struct {
		json string
		want error
	}{
		"another model":           {`{"model":{"type":"BPE"},` + tail, wordpiece.ErrUnsupported},
		"another splitter":        {`{"model":{"type":"WordPiece"},"pre_tokenizer":{"type":"ByteLevel"}}`, wordpiece.ErrUnsupported},
		"another normalizer":      {`{"model":{"type":"WordPiece"},"normalizer":{"type":"NFKC"},` + tail, wordpiece.ErrUnsupported},
		"no unknown token":        {`{"model":{"type":"WordPiece","vocab":{"a":0}},` + tail, wordpiece.ErrVocabulary},
		"negative id":             {`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":-3}},` + tail, wordpiece.ErrVocabulary},
		"absurd id":               {`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"a":2000000000}},` + tail, wordpiece.ErrVocabulary},
		"special tokens unlisted": {`{"model":{"type":"WordPiece","vocab":{"[UNK]":0}},` + tail, wordpiece.ErrVocabulary},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wordpiece.Parse([]byte(c.json)); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if _, err := wordpiece.Parse([]byte("{")); err == nil {
		t.Error("broken JSON was taken")
	}
	if _, err := wordpiece.Load(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("empty folder: got %v", err)
	}
}

func TestAddedTokensAreMatchedAfterNormalizationWhereAsked(t *testing.T) {
	t.Parallel()
	tokenizer, err := wordpiece.Parse([]byte(`{"added_tokens":[{"id":3,"content":"NEW","normalized":true},{"id":4,"content":"<X>"}],
		"normalizer":{"type":"BertNormalizer","clean_text":true,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},
		"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"b":2}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tokenizer.Append(nil, "a New<X>b<x>"), []int32{1, 3, 4, 2, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAnyTextGivesIDsOfTheVocabulary(t *testing.T) {
	t.Parallel()
	tokenizer := smallTokenizer(t, wordpiece.DefaultOptions())
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		for _, got := range tokenizer.Append(nil, text) {
			if got < 0 || int(got) >= len(small) {
				t.Fatalf("id %d of %q", got, text)
			}
		}
	})
}

func FuzzTokens(f *testing.F) {
	for _, text := range []string{"a,b", "[SEP]", "ΑΣ'", "\xff中", "é\u0301"} {
		f.Add(text)
	}
	tokenizer := smallTokenizer(f, wordpiece.DefaultOptions())
	f.Fuzz(func(t *testing.T, text string) {
		// White space at the ends and between words changes nothing.
		plain := tokenizer.Append(nil, text)
		if spaced := tokenizer.Append(nil, " "+text+"\n"); !slices.Equal(plain, spaced) {
			t.Errorf("%q: %v, with space around %v", text, plain, spaced)
		}
		if len(plain) > len(text) {
			t.Errorf("%q: %d tokens", text, len(plain))
		}
	})
}

func FuzzTokenizerFiles(f *testing.F) {
	f.Add([]byte(`{"added_tokens":[{"id":1,"content":"x","normalized":true}],"normalizer":{"type":"BertNormalizer","lowercase":true},
		"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"u","max_input_chars_per_word":-1,"vocab":{"u":0,"":7}}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"TemplateProcessing","single":[{}]},"model":{"vocab":{"[UNK]":0}}}`))
	f.Add([]byte(`{"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":[1],"cls":null},"model":{"vocab":{"[UNK]":0}}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		tokenizer, err := wordpiece.Parse(file)
		if err != nil {
			return
		}
		for _, id := range encode(tokenizer, "x u Xu ##u é") {
			if id < 0 {
				t.Errorf("id %d", id)
			}
		}
	})
}

func BenchmarkTokens(b *testing.B) {
	tokenizer := loadVocab(b, realparts.MiniLM(b))
	for name, text := range map[string]string{
		"english": strings.Repeat("The agent asked the same question again, in other words. ", 20),
		"accents": strings.Repeat("Élan déjà vu naïve façade, crème brûlée. ", 20),
		"chinese": strings.Repeat("代理又问了同样的问题。", 20),
	} {
		b.Run(name, func(b *testing.B) {
			ids := make([]int32, 0, 4*len(text))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ids = tokenizer.Append(ids[:0], text)
			}
		})
	}
}
