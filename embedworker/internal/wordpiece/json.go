package wordpiece

import (
	"encoding/json"
	"fmt"
)

// file is the part of a tokenizer.json that decides ids.
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

// Parse makes a tokenizer from the text of a tokenizer.json. Its padding and
// truncation are not followed.
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

// check refuses the kinds of tokenizer whose ids would come out wrong.
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
	t := &Tokenizer{unk: unk, maxWord: f.Model.MaxWord, before: before, after: after}
	if n := f.Normalizer; n != nil {
		strip := n.Lowercase
		if n.StripAccents != nil {
			strip = *n.StripAccents
		}
		t.norm = normalizer{n.CleanText, n.HandleChineseChars, n.Lowercase, strip}
	}
	if err := t.enter(f.Model); err != nil {
		return nil, err
	}
	for _, a := range f.Added {
		if err := t.enterAdded(a); err != nil {
			return nil, err
		}
	}
	for _, id := range append(append([]int32{}, before...), after...) {
		if id < 0 || int(id) >= t.size {
			return nil, fmt.Errorf("%w: special token %d is no entry", ErrVocabulary, id)
		}
	}
	return t, nil
}

func (t *Tokenizer) enter(m modelJSON) error {
	bytes := len(m.Prefix)
	for word := range m.Vocab {
		bytes += len(word)
	}
	if bytes >= maxNodes {
		return fmt.Errorf("%w: %d bytes of entries", ErrVocabulary, bytes)
	}
	t.trie = newTrie(bytes)
	for word, id := range m.Vocab {
		if err := t.grow(word, id); err != nil {
			return err
		}
		if word != "" {
			t.trie.add(word, id)
		}
	}
	t.continuation = t.trie.add(m.Prefix, none)
	if pad, ok := m.Vocab["[PAD]"]; ok {
		t.pad = pad
	}
	return nil
}

func (t *Tokenizer) enterAdded(a addedJSON) error {
	if err := t.grow(a.Content, a.ID); err != nil {
		return err
	}
	if a.Content == "[PAD]" {
		t.pad = a.ID
	}
	if !a.Normalized {
		t.raw.add(a.Content, a.ID)
		return nil
	}
	content, _ := t.norm.append(nil, nil, a.Content)
	t.normalized.add(string(content), a.ID)
	return nil
}

// grow widens the range of ids. The bound keeps a broken file from asking for
// an absurd embedding table.
func (t *Tokenizer) grow(word string, id int32) error {
	if id < 0 || id >= maxNodes {
		return fmt.Errorf("%w: id %d of %q", ErrVocabulary, id, word)
	}
	t.size = max(t.size, int(id)+1)
	return nil
}
