package wordpiece

// splitter finds added tokens, such as [SEP], in a text: the longest at the
// first place where one begins.
type splitter struct {
	tokens []added
	first  [256]bool // bytes that tokens begin with
}

type added struct {
	content string
	id      int32
}

func (s *splitter) empty() bool { return len(s.tokens) == 0 }

func (s *splitter) add(content string, id int32) {
	if content == "" {
		return
	}
	s.tokens = append(s.tokens, added{content, id})
	s.first[content[0]] = true
}

// next cuts text at its first added token: what comes before it, its id and what follows.
// The id is none if the text has no further one.
func (s *splitter) next(text string) (plain string, id int32, rest string) {
	if s.empty() {
		return text, none, ""
	}
	for i := range len(text) {
		if !s.first[text[i]] {
			continue
		}
		if t := s.longestAt(text[i:]); t.content != "" {
			return text[:i], t.id, text[i+len(t.content):]
		}
	}
	return text, none, ""
}

func (s *splitter) longestAt(text string) (best added) {
	for _, t := range s.tokens {
		if len(t.content) > len(best.content) && len(text) >= len(t.content) && text[:len(t.content)] == t.content {
			best = t
		}
	}
	return best
}
