package wordpiece

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// file is the part of a tokenizer.json that determines ids.
type file struct {
	Added         []addedJSON     `json:"added_tokens"`
	Normalizer    *normalizerJSON `json:"normalizer"`
	PreTokenizer  *kind           `json:"pre_tokenizer"`
	PostProcessor *postJSON       `json:"post_processor"`
	Model         modelJSON       `json:"model"`
}

type kind struct {
	Type string `json:"type"`
}

type addedJSON struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Normalized bool   `json:"normalized"`
}

type normalizerJSON struct {
	Type               string `json:"type"`
	CleanText          bool   `json:"clean_text"`
	HandleChineseChars bool   `json:"handle_chinese_chars"`
	StripAccents       *bool  `json:"strip_accents"`
	Lowercase          bool   `json:"lowercase"`
}

type modelJSON struct {
	Type    string           `json:"type"`
	Unk     string           `json:"unk_token"`
	Prefix  string           `json:"continuing_subword_prefix"`
	MaxWord int              `json:"max_input_chars_per_word"`
	Vocab   map[string]int32 `json:"vocab"`
}

// postJSON is a TemplateProcessing (single, special_tokens) or a
// BertProcessing (cls, sep).
type postJSON struct {
	Type    string `json:"type"`
	Single  []step `json:"single"`
	Special map[string]struct {
		IDs []int32 `json:"ids"`
	} `json:"special_tokens"`
	CLS namedID `json:"cls"`
	SEP namedID `json:"sep"`
}

type step struct {
	SpecialToken *struct {
		ID string `json:"id"`
	} `json:"SpecialToken"`
	Sequence *struct{} `json:"Sequence"`
}

// namedID is written as ["[SEP]", 102].
type namedID struct{ id int32 }

func (n *namedID) UnmarshalJSON(data []byte) error {
	var name string
	return json.Unmarshal(data, &[]any{&name, &n.id})
}

// Parse makes a tokenizer from the content of a tokenizer.json. It ignores padding and
// truncation.
func Parse(data []byte) (*Tokenizer, error) {
	f := file{Model: modelJSON{MaxWord: maxWordLength, Prefix: "##", Unk: "[UNK]"}}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("read tokenizer.json: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	before, after, err := f.PostProcessor.around()
	if err != nil {
		return nil, err
	}
	return f.build(before, after)
}

// check refuses other kinds of tokenizers, whose ids would come out wrong.
func (f *file) check() error {
	switch {
	case f.Model.Type != "" && f.Model.Type != "WordPiece":
		return fmt.Errorf("%w: model is %q", ErrUnsupported, f.Model.Type)
	case f.PreTokenizer == nil || f.PreTokenizer.Type != "BertPreTokenizer":
		return fmt.Errorf("%w: pre_tokenizer is not BertPreTokenizer", ErrUnsupported)
	case f.Normalizer != nil && f.Normalizer.Type != "BertNormalizer":
		return fmt.Errorf("%w: normalizer is %q", ErrUnsupported, f.Normalizer.Type)
	}
	return nil
}

// around returns the special tokens before and after a single text.
func (p *postJSON) around() (before, after []int32, err error) {
	if p == nil {
		return nil, nil, nil
	}
	switch p.Type {
	case "BertProcessing":
		return []int32{p.CLS.id}, []int32{p.SEP.id}, nil
	case "TemplateProcessing":
	default:
		return nil, nil, fmt.Errorf("%w: post_processor is %q", ErrUnsupported, p.Type)
	}
	side := &before
	for _, s := range p.Single {
		if s.Sequence != nil {
			side = &after
			continue
		}
		if s.SpecialToken == nil {
			return nil, nil, fmt.Errorf("%w: empty step in post_processor", ErrUnsupported)
		}
		token, ok := p.Special[s.SpecialToken.ID]
		if !ok {
			return nil, nil, fmt.Errorf("%w: post_processor has no ids for %q", ErrVocabulary, s.SpecialToken.ID)
		}
		*side = append(*side, token.IDs...)
	}
	return before, after, nil
}

// build makes the tokenizer once everything that is asked for is known to be
// supported.
func (f *file) build(before, after []int32) (*Tokenizer, error) {
	unk, ok := f.Model.Vocab[f.Model.Unk]
	if !ok {
		return nil, fmt.Errorf("%w: unknown token %q is no entry", ErrVocabulary, f.Model.Unk)
	}
	if err := f.checkIDs(slices.Concat(before, after)); err != nil {
		return nil, err
	}
	t := &Tokenizer{
		words: f.Model.Vocab, pieces: map[string]int32{}, maxWord: f.Model.MaxWord,
		unk: unk, pad: f.Model.Vocab["[PAD]"], before: before, after: after,
	}
	for word, id := range t.words {
		t.longest = max(t.longest, len(word))
		if piece, ok := strings.CutPrefix(word, f.Model.Prefix); ok {
			t.pieces[piece] = id
		}
	}
	delete(t.words, "")
	delete(t.pieces, "")
	for _, a := range f.Added {
		if a.Content == "[PAD]" {
			t.pad = a.ID
		}
	}
	if n := f.Normalizer; n != nil {
		strip := n.Lowercase
		if n.StripAccents != nil {
			strip = *n.StripAccents
		}
		t.norm = normalizer{n.CleanText, n.HandleChineseChars, n.Lowercase, strip}
	}
	var err error
	if t.raw, err = f.added(false, func(text string) string { return text }); err != nil {
		return nil, err
	}
	t.normalized, err = f.added(true, t.norm.normalize)
	return t, err
}

// maxID keeps a broken file from asking for an absurd embedding table.
const maxID = 1 << 24

// checkIDs refuses ids out of range, and special tokens without an entry.
func (f *file) checkIDs(special []int32) error {
	known := map[int32]bool{}
	for _, id := range f.Model.Vocab {
		known[id] = true
	}
	for _, a := range f.Added {
		known[a.ID] = true
	}
	for id := range known {
		if id < 0 || id >= maxID {
			return fmt.Errorf("%w: id %d is not between 0 and %d", ErrVocabulary, id, maxID)
		}
	}
	for _, id := range special {
		if !known[id] {
			return fmt.Errorf("%w: special token %d is no entry", ErrVocabulary, id)
		}
	}
	return nil
}

// added returns the added tokens that are found before or after normalization.
func (f *file) added(normalized bool, normalize func(string) string) (out added, err error) {
	out.ids = map[string]int32{}
	var patterns []string
	for _, a := range f.Added {
		if text := normalize(a.Content); text != "" && a.Normalized == normalized {
			out.ids[text] = a.ID
			patterns = append(patterns, regexp.QuoteMeta(text))
		}
	}
	if len(patterns) == 0 {
		return out, nil
	}
	if out.pattern, err = regexp.Compile(strings.Join(patterns, "|")); err != nil {
		return out, fmt.Errorf("%w: too many added tokens", ErrUnsupported)
	}
	out.pattern.Longest()
	return out, nil
}
