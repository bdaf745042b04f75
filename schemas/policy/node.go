package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the largest bundle that is read. A policy takes about 500
// bytes, and a NATS server's default message limit is 1 MiB.
const MaxBytes = 4 << 20

// parseTree reads YAML or JSON into one kind of tree. JSON has a reader of
// its own, since YAML refuses some of its escapes.
func parseTree(data []byte, noun string) (*yaml.Node, *Fault) {
	switch {
	case len(data) > MaxBytes:
		return nil, &Fault{Message: fmt.Sprintf("the %s is larger than %d bytes", noun, MaxBytes)}
	case len(bytes.TrimSpace(data)) == 0:
		return nil, &Fault{Line: 1, Message: "the " + noun + " is empty"}
	case json.Valid(data):
		return parseJSON(data)
	default:
		return parseYAML(data, noun)
	}
}

func parseYAML(data []byte, noun string) (*yaml.Node, *Fault) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Fault{Line: 1, Message: "the " + noun + " is empty"}
		}
		return nil, yamlFault(err)
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], nil
	case err != nil:
		return nil, yamlFault(err)
	default:
		return nil, &Fault{Line: second.Line, Message: "the " + noun + " must be a single YAML document"}
	}
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// tabbed is the parser's message about a tab in place of spaces; no other character of a
// bundle is refused so.
const tabbed = "found character that cannot start any token"

// yamlFault takes the line out of the parser's message.
func yamlFault(err error) *Fault {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = message[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
	}
	if message == tabbed {
		message = "a line is indented with a tab, where YAML wants spaces"
	}
	return &Fault{Line: line, Message: "not well-formed: " + message}
}

// jsonReader builds the tree of a document that is known to be valid.
type jsonReader struct {
	dec      *json.Decoder
	newlines []int64
}

func parseJSON(data []byte) (*yaml.Node, *Fault) {
	r := jsonReader{dec: json.NewDecoder(bytes.NewReader(data))}
	r.dec.UseNumber()
	for i, c := range data {
		if c == '\n' {
			r.newlines = append(r.newlines, int64(i))
		}
	}
	node, err := r.value()
	if err != nil {
		return nil, &Fault{Line: r.line(), Message: "not well-formed: " + err.Error()}
	}
	return node, nil
}

// line is where the token that was read last ends; none spans two lines.
func (r *jsonReader) line() int {
	i, _ := slices.BinarySearch(r.newlines, r.dec.InputOffset())
	return i + 1
}

func (r *jsonReader) value() (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return r.scalar(token), nil
	}
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: r.line()}
	if delim == '{' {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	// Names and values alternate in a mapping, as they do in its tree.
	for r.dec.More() {
		child, err := r.value()
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	_, err = r.dec.Token()
	return node, err
}

func (r *jsonReader) scalar(token json.Token) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line()}
	switch t := token.(type) {
	case string:
		node.Tag, node.Value = "!!str", t
	case bool:
		node.Tag, node.Value = "!!bool", strconv.FormatBool(t)
	case json.Number:
		node.Tag, node.Value = "!!int", t.String()
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node
}
