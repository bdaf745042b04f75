package wordpiece_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unloop/unloop/embedworker/internal/wordpiece"
	"github.com/unloop/unloop/embedworker/realparts"
)

// referenceScript reads base64 lines and writes the ids of each as JSON.
const referenceScript = `
import { AutoTokenizer, env } from '@huggingface/transformers';
import fs from 'node:fs';
import path from 'node:path';
const folder = process.argv[process.argv.length - 1];
env.localModelPath = path.dirname(folder);
env.allowRemoteModels = false;
env.allowLocalModels = true;
const tokenizer = await AutoTokenizer.from_pretrained(path.basename(folder));
const lines = fs.readFileSync(0, 'utf8').split('\n').slice(0, -1);
const ids = lines.map(l => tokenizer(Buffer.from(l, 'base64').toString('utf8'),
  {return_tensor: false, truncation: false, padding: false}).input_ids);
fs.writeFileSync(1, JSON.stringify(ids));
`

// fragments are what the generated strings are made of: each kind of text that
// treats some rule of the normalizer or the splitter differently.
var fragments = [][]string{
	strings.Fields("the quick brown fox Jumped OVER unaffable embeddings tokenization, isn't don't U.S.A. e.g. 3.14 1,000 #tag @user http://example.com/a?b=c&d=e antidisestablishmentarianism"),
	{"func main() {", "x := map[string]int{}", "return nil, err", "if (a && b || !c) { d[0]++; }", "SELECT * FROM t WHERE id=42;", "#include <stdio.h>", "snake_case_name", "camelCaseName", "0xDEADBEEF", "/usr/local/bin", "`tick`", "a->b::c", "$HOME", "~/x", "50%", "a^b|c"},
	{`{"tool": "search", "args": {"q": "weather", "n": 5}}`, `[1, 2.5e-3, null, true]`, `"\u00e9\n"`, `{"a":[{}]}`},
	{"😀", "👍🏽", "👩‍👩‍👧", "🇩🇪", "✨", "❤️", "🤖 robot", "☃", "𝒳", "𝔘𝔫𝔦"},
	{"é", "e\u0301", "ñ", "Å", "ｱ", "ﾞ", "ǆ", "ế", "a\u0323\u0302", "\u0301", "x\u20dd", "\u0344", "İ", "ı", "ß", "ẞ", "ﬁ", "Ω", "ΑΣ", "ΑΣ'", "ΑΣ'Α", "Σ", "ὈΔΥΣΣΕΎΣ", "Ǆ", "Ά"},
	{"中文", "日本語テキスト", "漢字かな交じり文", "한국어", "각", "𠀀𠀁", "豈", "丽", "。", "「」", "～", "ＡＢＣ１２３", "〆", "々", "ㄅㄆ"},
	{"\x00", "\x01", "\x07", "\t", "\n", "\r\n", "\v", "\f", "\x1b[31m", "\x7f", "\u0080", "\u0085", "\u00a0", "\u00ad", "\u200b", "\u200e", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\ufffd", "\ue000", "\U000E0041", "\U0010FFFD", "\u2060", "\u1680", "\u180e"},
	{"\xff", "\xc3", "\xe4\xb8", "\xf0\x9f\x98", "\xed\xa0\x80", "\xed\xb0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\x80", "ab\xffcd", "\xfe\xff"},
	{"[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "[cls]", "[[SEP]", "[SEP", "[MASK]x", "##ing", "##", "[unused5]", "[ SEP ]"},
	{"привет мир", "ЁЛКА", "שלום", "مرحبا بالعالم", "नमस्ते", "ไทย", "ქართული", "Ⴀ", "Ꭰ", "ꭰ", "Ա", "្", "က", "ᠠ", "ⅷ", "Ⅷ", "½", "№", "™", "€", "×", "÷", "‰", "…", "—", "“”", "¿", "§", "·", "•", "※", "؟", "،", "।"},
	{strings.Repeat("x", 99), strings.Repeat("y", 100), strings.Repeat("z", 101), strings.Repeat("é", 100), strings.Repeat("ab", 60), strings.Repeat("\u0301", 40)},
}

// generated returns n strings, the same each time: each fragment alone, then
// mixtures, then random characters and random bytes.
func generated(n int) []string {
	texts := []string{"", " ", "  a  "}
	for _, kind := range fragments {
		texts = append(texts, kind...)
	}
	rng := rand.New(rand.NewPCG(3, 5))
	for len(texts) < n {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			addPart(&b, rng)
			if rng.IntN(3) > 0 {
				b.WriteByte(' ')
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

func addPart(b *strings.Builder, rng *rand.Rand) {
	switch rng.IntN(8) {
	case 0:
		for range 1 + rng.IntN(5) {
			b.WriteByte(byte(rng.IntN(256)))
		}
	case 1:
		// Ranges that every Unicode version of the last years agrees on.
		starts := []rune{0xA0, 0x370, 0x400, 0x5D0, 0x620, 0x900, 0xE01, 0x1E00, 0x2000, 0x2100, 0x3040, 0x4E00, 0xAC00, 0xF900, 0xFF01}
		for range 1 + rng.IntN(4) {
			b.WriteRune(starts[rng.IntN(len(starts))] + rune(rng.IntN(40)))
		}
	default:
		kind := fragments[rng.IntN(len(fragments))]
		b.WriteString(kind[rng.IntN(len(kind))])
	}
}

// encode returns the ids of a text with the model's special tokens around them.
func encode(t *wordpiece.Tokenizer, text string) []int32 {
	before, after := t.Around()
	return append(t.Append(slices.Clone(before), text), after...)
}

func TestIDsAreThoseOfTheJavaScriptTokenizer(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(realparts.MiniLM(t))
	if err != nil {
		t.Fatal(err)
	}
	tokenizer, err := wordpiece.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	texts := generated(2000)
	var lines bytes.Buffer
	for _, text := range texts {
		lines.WriteString(base64.StdEncoding.EncodeToString([]byte(text)) + "\n")
	}
	var want [][]int32
	if err := json.Unmarshal(realparts.Script(t, referenceScript, &lines, folder), &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != len(texts) {
		t.Fatalf("the reference answered %d of %d texts", len(want), len(texts))
	}
	for i, text := range texts {
		if got := encode(tokenizer, text); !slices.Equal(got, want[i]) {
			t.Errorf("%q\n got %v\nwant %v", text, got, want[i])
		}
	}
}

func TestVocabularyFileGivesTheSameIDs(t *testing.T) {
	t.Parallel()
	folder := realparts.MiniLM(t)
	fromJSON, err := wordpiece.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	fromVocab := loadVocab(t, folder)
	for _, text := range generated(2000) {
		if got, want := encode(fromVocab, text), encode(fromJSON, text); !slices.Equal(got, want) {
			t.Errorf("%q: vocab.txt gives %v, tokenizer.json %v", text, got, want)
		}
	}
}
