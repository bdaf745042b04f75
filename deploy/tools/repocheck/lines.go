package main

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"strings"
)

// lineCount counts the lines of production code, and those with only a comment. Generated
// code, tests and blank lines do not count.
type lineCount struct{ code, comment int }

func (c lineCount) String() string {
	return fmt.Sprintf("%d lines of code, %d of comment", c.code, c.comment)
}

// add counts the lines of one file.
func (c *lineCount) add(text []byte) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	code, comment := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own
		}
		lines := code
		if tok == token.COMMENT {
			lines = comment
		}
		first := file.Line(pos)
		for i := range strings.Count(literal, "\n") + 1 {
			lines[first+i] = true
		}
	}
	c.code += len(code)
	for line := range comment {
		if !code[line] {
			c.comment++
		}
	}
}

// isEmpty reports whether a function has an empty body. Such functions do not count, so that they
// can't lower the median.
func isEmpty(fn *ast.FuncDecl) bool { return fn.Body != nil && len(fn.Body.List) == 0 }
