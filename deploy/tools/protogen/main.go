// Command protogen generates the Go code of protobuf messages without protoc and plugins.
//
//	protogen PROTO_DIR OUT_DIR GO_MODULE
//
// It generates code for each .proto file below PROTO_DIR. GO_MODULE is the import path of
// OUT_DIR.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: protogen PROTO_DIR OUT_DIR GO_MODULE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, protoDir, outDir, module string) error {
	request, err := compile(ctx, protoDir)
	if err != nil {
		return err
	}
	request.Parameter = new("module=" + module)
	plugin, err := protogen.Options{}.New(request)
	if err != nil {
		return err
	}
	for _, file := range plugin.Files {
		if file.Generate {
			gengo.GenerateFile(plugin, file)
		}
	}
	return write(outDir, plugin.Response())
}

// compile returns the request that protoc would send to a plugin. The descriptors keep
// their comments.
func compile(ctx context.Context, protoDir string) (*pluginpb.CodeGeneratorRequest, error) {
	names, err := protoFiles(protoDir)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{ImportPaths: []string{protoDir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	added := map[string]bool{}
	for _, file := range files {
		add(request, file, added)
	}
	return request, nil
}

// add adds a file to a request, after its imports.
func add(request *pluginpb.CodeGeneratorRequest, file protoreflect.FileDescriptor, added map[string]bool) {
	if added[file.Path()] {
		return
	}
	added[file.Path()] = true
	for i := range file.Imports().Len() {
		add(request, file.Imports().Get(i).FileDescriptor, added)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
}

func protoFiles(dir string) ([]string, error) {
	var names []string
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".proto" {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

func write(dir string, response *pluginpb.CodeGeneratorResponse) error {
	if response.Error != nil {
		return fmt.Errorf("generate: %s", response.GetError())
	}
	for _, file := range response.File {
		name := filepath.Join(dir, filepath.FromSlash(file.GetName()))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
