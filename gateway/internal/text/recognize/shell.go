package recognize

import "bytes"

// shellPrograms begin the errors of shells.
var shellPrograms = [...]string{"bash", "sh", "dash", "ash", "ksh", "mksh", "zsh"}

// shellLine returns the span of the line number in a shell's error, at the word text[i:w]:
// "bash: line 12: ", "sh: 12: ", "zsh:12: ". An interactive shell counts all lines that it
// ever read.
func shellLine(text []byte, i, w int) (start, end int) {
	at := w
	switch {
	case w-i == len("line") && equalFold(text[i:w], "line") && bytes.HasSuffix(text[:i], []byte(": ")) && namesShell(bytes.TrimSuffix(text[:i-2], []byte(": -c"))):
		at = skipSpace(text, w)
	case w-i <= len("bash") && w < len(text) && text[w] == ':' && namesShell(text[:w]):
		at = skipSpace(text, w+1)
	}
	end = skipDigits(text, at)
	if at == w || end == at || end+1 >= len(text) || text[end] != ':' || text[end+1] != ' ' {
		return 0, 0
	}
	return at, end
}

// namesShell reports whether text ends in the name of a shell, alone or in a path.
func namesShell(text []byte) bool {
	for _, name := range shellPrograms {
		n := len(text) - len(name)
		if n >= 0 && string(text[n:]) == name && (n == 0 || class[text[n-1]] == other && text[n-1] != '.' && text[n-1] != '-') {
			return true
		}
	}
	return false
}

// shellError reports whether a line is a shell's error with a line number: "bash: -c: line
// 1: unexpected EOF", "/bin/sh: 1: file: not found".
func shellError(line []byte) bool {
	name, rest, _ := bytes.Cut(line, []byte(":"))
	if bytes.IndexByte(name, ' ') >= 0 || !namesShell(name) {
		return false
	}
	rest = bytes.TrimPrefix(bytes.TrimLeft(rest, " "), []byte("-c: "))
	rest = bytes.TrimPrefix(rest, []byte("line "))
	end := skipDigits(rest, 0)
	return end > 0 && hasPrefix(rest[end:], ":") && !hasPrefix(bytes.TrimLeft(rest[end+1:], " "), "warning")
}
