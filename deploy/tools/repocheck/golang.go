package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// The limits of code that is neither generated nor a test, in lines. The linter bounds
// each function (funlen).
const (
	maxFile           = 400
	maxFunctionP95    = 45
	maxFunctionMedian = 10
)

// nativeFolder is the only package that may call C, so that all others build without a C
// compiler.
const nativeFolder = "embedworker/internal/onnx"

// functionSizes are the lengths of all functions, in lines.
type functionSizes []int

// at returns the length that a share of the functions does not exceed.
func (s functionSizes) at(share float64) int {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[int(share*float64(len(sorted)-1))]
}

func (s functionSizes) String() string {
	return fmt.Sprintf("%d functions: median %d lines, 95th percentile %d, longest %d", len(s), s.at(0.5), s.at(0.95), s.at(1))
}

func (s functionSizes) check() []finding {
	var found []finding
	if p95 := s.at(0.95); p95 > maxFunctionP95 {
		found = append(found, finding{".", 1, fmt.Sprintf("the 95th percentile of function lengths is %d lines, over %d", p95, maxFunctionP95)})
	}
	if median := s.at(0.5); median > maxFunctionMedian {
		found = append(found, finding{".", 1, fmt.Sprintf("the median of function lengths is %d lines, over %d", median, maxFunctionMedian)})
	}
	return found
}

func (r *report) checkGo(name string, text []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.checkNative(fset, file)
	if strings.HasSuffix(name, "_test.go") || ast.IsGenerated(file) {
		return nil
	}
	if lines := fset.File(file.FileStart).LineCount(); lines > maxFile {
		r.findings = append(r.findings, finding{name, 1, fmt.Sprintf("the file has %d lines, over %d", lines, maxFile)})
	}
	r.lines.add(text)
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && !isEmpty(fn) {
			r.sizes = append(r.sizes, fset.Position(fn.End()).Line-fset.Position(fn.Pos()).Line+1)
		}
	}
	return nil
}

// checkNative finds calls of C. The linter sees such files only after cgo has rewritten them
// without the import.
func (r *report) checkNative(fset *token.FileSet, file *ast.File) {
	for _, spec := range file.Imports {
		at := fset.Position(spec.Pos())
		if spec.Path.Value == `"C"` && path.Dir(at.Filename) != nativeFolder {
			r.findings = append(r.findings, finding{at.Filename, at.Line, "C is called from " + nativeFolder + " alone"})
		}
	}
}
