package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
)

// starting are the functions and types that start goroutines, of packages that have
// others as well.
var starting = map[string][]string{
	"http":     {"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "ListenAndServe", "Post", "PostForm", "Serve", "Server", "Transport", "TimeoutHandler"},
	"httptest": {"NewServer", "NewTLSServer", "NewUnstartedServer"},
	"time":     {"AfterFunc"},
	"context":  {"AfterFunc"},
}

// files is what the files of a package do that matters to a race.
type files struct {
	imports []string
	starts  bool            // goroutines
	globals map[string]bool // variables of the package
	changed map[string]bool // names that functions assign to, or take the address of
}

// readFiles parses files of one package. Generated ones are left out: the types of
// protocol buffers fill their tables once, under a lock.
func readFiles(dir string, names []string) (*files, error) {
	f := &files{globals: map[string]bool{}, changed: map[string]bool{}}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(file) {
			f.add(file)
		}
	}
	return f, nil
}

func (f *files) add(file *ast.File) {
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		f.imports = append(f.imports, path)
	}
	for _, decl := range file.Decls {
		f.addGlobals(decl)
	}
	ast.Inspect(file, f.visit)
}

// shares reports whether the files have what several goroutines may use at once: locks,
// atomic values, unsafe pointers, or variables of the package that functions change. A
// local variable of the same name counts as the package's.
func (f *files) shares() bool {
	for name := range f.globals {
		if f.changed[name] {
			return true
		}
	}
	return slices.Contains(f.imports, "sync") || slices.Contains(f.imports, "sync/atomic") || slices.Contains(f.imports, "unsafe")
}

func (f *files) addGlobals(decl ast.Decl) {
	gen, ok := decl.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR {
		return
	}
	for _, spec := range gen.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			f.globals[name.Name] = true
		}
	}
}

func (f *files) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
		f.starts = true
	case *ast.SelectorExpr:
		from, ok := n.X.(*ast.Ident)
		f.starts = f.starts || ok && slices.Contains(starting[from.Name], n.Sel.Name)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			for _, left := range n.Lhs {
				f.change(left)
			}
		}
	case *ast.IncDecStmt:
		f.change(n.X)
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			f.change(n.X)
		}
	}
	return true
}

// change notes the variable that an expression is a part of.
func (f *files) change(x ast.Expr) {
	switch x := x.(type) {
	case *ast.Ident:
		f.changed[x.Name] = true
	case *ast.IndexExpr:
		f.change(x.X)
	case *ast.SelectorExpr:
		f.change(x.X)
	case *ast.StarExpr:
		f.change(x.X)
	case *ast.ParenExpr:
		f.change(x.X)
	}
}
