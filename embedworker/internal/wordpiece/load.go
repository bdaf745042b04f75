package wordpiece

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Errors of Load, Parse and ParseVocab; they come wrapped.
var (
	// ErrUnsupported means that the file describes another kind of tokenizer.
	ErrUnsupported = errors.New("not a BERT WordPiece tokenizer")
	// ErrVocabulary means that the vocabulary cannot be used.
	ErrVocabulary = errors.New("unusable vocabulary")
)

// Load reads the tokenizer in a model's folder: tokenizer.json, or else vocab.txt and, if it
// is there, tokenizer_config.json.
func Load(dir string) (*Tokenizer, error) {
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err == nil {
		return Parse(data)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read tokenizer: %w", err)
	}
	vocab, err := os.ReadFile(filepath.Join(dir, "vocab.txt"))
	if err != nil {
		return nil, fmt.Errorf("read tokenizer: neither tokenizer.json nor vocab.txt in %s: %w", dir, err)
	}
	options := DefaultOptions()
	config, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err == nil {
		err = json.Unmarshal(config, &options)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read tokenizer_config.json: %w", err)
	}
	return ParseVocab(vocab, options)
}

// Options are the settings of tokenizer_config.json that determine ids.
type Options struct {
	LowerCase bool `json:"do_lower_case"`
	SplitCJK  bool `json:"tokenize_chinese_chars"`
	// StripAccents is LowerCase if it is nil.
	StripAccents *bool `json:"strip_accents"`
}

// DefaultOptions are those of an uncased BERT.
func DefaultOptions() Options { return Options{LowerCase: true, SplitCJK: true} }

// maxWordLength is BERT's, in characters: longer words are unknown.
const maxWordLength = 100

// ParseVocab makes a tokenizer from the content of a vocab.txt, which has an entry on each
// line. An entry's id is its line number, from 0. The special tokens have BERT's names.
func ParseVocab(vocab []byte, o Options) (*Tokenizer, error) {
	ids := make(map[string]int32)
	lines := bufio.NewScanner(bytes.NewReader(vocab))
	for n := int32(0); lines.Scan(); n++ {
		ids[strings.TrimRight(lines.Text(), "\r")] = n
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrVocabulary, err)
	}
	f := file{Normalizer: &normalizerJSON{
		CleanText: true, HandleChineseChars: o.SplitCJK, Lowercase: o.LowerCase, StripAccents: o.StripAccents,
	}}
	f.Model = modelJSON{Unk: "[UNK]", Prefix: "##", MaxWord: maxWordLength, Vocab: ids}
	for _, name := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		id, ok := ids[name]
		if !ok {
			return nil, fmt.Errorf("%w: %s is missing", ErrVocabulary, name)
		}
		f.Added = append(f.Added, addedJSON{ID: id, Content: name})
	}
	return f.build([]int32{ids["[CLS]"]}, []int32{ids["[SEP]"]})
}
