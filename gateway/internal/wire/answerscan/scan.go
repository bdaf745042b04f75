package answerscan

import "bytes"

// maxLine is the length of the longest line of a stream that is looked at for the name of
// an event, in bytes.
const maxLine = 64

// maxPassed is the length of the longest event that others are compared with, in bytes.
const maxPassed = 1 << 10

// maxLiteral is the length of the longest number that is reported, in bytes.
const maxLiteral = 32

// scanner finds the values of JSON, or of an event stream of JSON, that arrives in pieces.
type scanner struct {
	at       Place
	watchers []watching
	names    *Names // of all watchers, as far as they said; nil for all
	// passed is an event without the names passedBy, if there was one.
	passed   []byte
	passedBy *Names

	inString bool
	escaped  bool
	blank    bool // nothing but white space since the end of the last line
	begun    bool // a document of this event has begun
	// document says that one has begun in this line.
	document bool
	// text is the string that was read last, as far as it matters; value says that
	// a name came before it.
	text  []byte
	value bool
	// literal is the number, true or false that is being read.
	literal []byte
	// line is the current line of a stream outside of JSON, as far as it matters.
	line []byte
}

// watching is a watcher, and the object that is kept for it.
type watching struct {
	Watcher
	names   *Names // what Names returned last
	held    []byte
	most    int // bytes that may be held; 0 if no object is kept
	outside int // the depth at which the object stands
}

func newScanner(stream bool, watchers []Watcher) *scanner {
	s := &scanner{at: Place{Stream: stream}, blank: true}
	s.add(watchers)
	return s
}

func (s *scanner) add(watchers []Watcher) {
	for _, w := range watchers {
		s.watchers = append(s.watchers, watching{Watcher: w})
	}
}

// Write takes the next bytes. It never fails.
func (s *scanner) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := 1
		switch {
		case s.inString && (rest[0] != '\n' || !s.at.Stream): // JSON has no line ends in strings
			n = s.inside(rest)
		case s.at.depth == 0:
			if n = s.pass(rest); n == 0 {
				n = s.outside(rest)
			}
		default:
			s.keep(rest[:1])
			s.structure(rest[0])
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// pass returns the length of the event at the beginning of p if no watcher wants any of its
// values: data that is an object in one line, and the empty line behind it. It is 0 for
// others, and for an event that is not whole. Most events of most streams pass.
func (s *scanner) pass(p []byte) int {
	if !s.at.Stream || !s.blank || s.begun || s.escaped || len(s.line) > 0 || !bytes.HasPrefix(p, []byte("data:")) {
		return 0
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		return 0
	}
	data, behind := bytes.TrimSuffix(p[len("data:"):end], []byte("\r")), bytes.TrimPrefix(p[end+1:], []byte("\r"))
	data = bytes.TrimLeft(data, " ")
	if len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' || len(behind) == 0 || behind[0] != '\n' {
		return 0
	}
	names := s.wanted()
	if names != s.passedBy {
		s.passed, s.passedBy = nil, names
	}
	if names == nil || names.in(data, s.passed) {
		return 0
	}
	if len(data) <= maxPassed {
		s.passed = append(s.passed[:0], data...)
	}
	for i := range s.watchers {
		s.watchers[i].Document()
	}
	return len(p) - len(behind) + 1
}

func (s *scanner) end(whole bool) {
	for i := range s.watchers {
		s.watchers[i].End(whole)
	}
}

// keep adds bytes to the objects that are kept.
func (s *scanner) keep(p []byte) {
	for i := range s.watchers {
		w := &s.watchers[i]
		if w.most == 0 {
			continue
		}
		if len(w.held)+len(p) > w.most {
			w.most, w.held = 0, nil
			continue
		}
		w.held = append(w.held, p...)
	}
}

// inside reads bytes of a string, and returns how many.
func (s *scanner) inside(p []byte) int {
	n := s.find(p)
	text := p[:n]
	if n < len(p) && p[n] == '"' {
		s.inString = false
		n++
	}
	s.keep(p[:n])
	if room := maxText + 1 - len(s.text); s.at.depth <= MaxDepth && room > 0 {
		s.text = append(s.text, text[:min(room, len(text))]...)
	}
	if !s.inString && s.value && len(s.text) > 0 && len(s.text) <= maxText {
		for i := range s.watchers {
			s.watchers[i].Text(&s.at, s.text)
		}
	}
	return n
}

// find returns where in p the string that is being read ends: at its quote, at the end of
// the line in a stream, or with p.
func (s *scanner) find(p []byte) int {
	for from := 0; ; {
		end, quoted := len(p), false
		if i := bytes.IndexByte(p[from:], '"'); i >= 0 {
			end, quoted = from+i, true
		}
		if s.at.Stream {
			if i := bytes.IndexByte(p[from:end], '\n'); i >= 0 {
				end, quoted = from+i, false
			}
		}
		before := bytes.TrimRight(p[from:end], `\`)
		odd := (end-from-len(before))%2 == 1
		s.escaped = odd != (s.escaped && len(before) == 0)
		if !quoted || !s.escaped {
			return end
		}
		s.escaped, from = false, end+1
	}
}

// outside reads bytes outside of documents, such as those between the events of a stream, and
// returns how many.
func (s *scanner) outside(p []byte) int {
	for i, c := range p {
		if c == '{' || c == '\n' || c == '[' && !s.at.Stream {
			if i == 0 {
				s.structure(c)
				return 1
			}
			return i
		}
		s.blank = s.blank && c == '\r'
		if len(s.line) <= maxLine {
			s.line = append(s.line, c)
		}
	}
	return len(p)
}

// wanted returns the names of values that are wanted from now on; nil for all.
func (s *scanner) wanted() *Names {
	changed := false
	for i := range s.watchers {
		w := &s.watchers[i]
		if names := w.Names(); names != w.names {
			w.names, changed = names, true
		}
	}
	if changed {
		s.names = union(s.watchers)
	}
	return s.names
}

// structure reads a byte of a document that is outside of strings.
func (s *scanner) structure(c byte) {
	if s.value && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '.' || c == '+' || c == 'E') {
		if len(s.literal) <= maxLiteral {
			s.literal = append(s.literal, c)
		}
		s.blank = false
		return
	}
	if len(s.literal) > 0 {
		s.endLiteral()
	}
	switch c {
	case '"':
		s.inString, s.text = true, s.text[:0]
	case ':':
		s.value = true
		s.at.set(s.text)
	case ',':
		s.value = false
	case '{', '[':
		s.open(c)
	case '}', ']':
		s.close()
	case '\n':
		s.lineEnd()
		return
	case ' ', '\t', '\r':
		return
	}
	s.blank = false
}

// endLiteral reports a number, true or false. Null is as good as nothing.
func (s *scanner) endLiteral() {
	if s.at.depth <= MaxDepth && len(s.literal) <= maxLiteral && s.literal[0] != 'n' {
		for i := range s.watchers {
			s.watchers[i].Literal(&s.at, s.literal)
		}
	}
	s.literal = s.literal[:0]
}

func (s *scanner) open(c byte) {
	if c == '{' && s.at.depth == 0 {
		s.begin()
	} else if c == '{' && s.at.depth <= MaxDepth && (s.value || string(s.at.Name()) == Element) {
		for i := range s.watchers {
			s.ask(&s.watchers[i])
		}
	}
	s.at.depth++
	s.value, s.text = false, s.text[:0]
	if c == '[' {
		s.at.set([]byte(Element))
	} else {
		s.at.set(nil)
	}
}

// begin reports that a document begins, unless it is not the first of its event.
func (s *scanner) begin() {
	s.document = true
	if s.begun && s.at.Stream {
		return
	}
	s.begun = true
	for i := range s.watchers {
		s.watchers[i].Document()
	}
}

// ask reports the beginning of an object to a watcher, and keeps the object if it is wanted.
func (s *scanner) ask(w *watching) {
	if w.most > 0 {
		return
	}
	if w.most = w.Object(&s.at); w.most > 0 {
		w.held, w.outside = append(w.held[:0], '{'), s.at.depth
	}
}

func (s *scanner) close() {
	s.at.depth = max(s.at.depth-1, 0)
	s.value = false
	for i := range s.watchers {
		w := &s.watchers[i]
		if w.most > 0 && w.outside == s.at.depth {
			w.most = 0
			w.JSON(&s.at, w.held)
		}
		if s.at.depth > 0 && s.at.depth <= MaxDepth || s.at.depth == 0 && !s.at.Stream {
			w.Closed(&s.at)
		}
	}
}

// lineEnd ends a line. An empty line of a stream ends its event, whatever was wrong with
// that.
func (s *scanner) lineEnd() {
	if name := s.event(); len(name) > 0 {
		for i := range s.watchers {
			s.watchers[i].Event(name)
		}
	}
	s.line, s.inString, s.document = s.line[:0], false, false
	if s.at.Stream && s.blank {
		s.begun, s.at.depth, s.escaped, s.value, s.literal = false, 0, false, false, s.literal[:0]
		for i := range s.watchers {
			s.watchers[i].most = 0
		}
	}
	s.blank = true
}

// event returns the name of an event that the line has, or data that is no object.
func (s *scanner) event() []byte {
	if !s.at.Stream || s.document || len(s.line) > maxLine {
		return nil
	}
	field, value, _ := bytes.Cut(s.line, []byte(":"))
	if string(field) != "event" && string(field) != "data" {
		return nil
	}
	return bytes.TrimSpace(value)
}
