package bundle

import (
	"maps"
	"slices"

	"github.com/unloop/unloop/schemas/glob"
)

// dimension is a property of requests by which the index finds policies.
type dimension int

const (
	byCaller dimension = iota
	byProject
	byTenant
	byHost
	byPath
	byModel
	byUpstream
	byHeader
	dimensions
)

// index finds the policies that may match a request. Each policy is indexed in one
// dimension: the one in which the fewest other policies share its values. A request looks up
// its own values, so policies of other tenants, paths or models take no time.
type index struct {
	tables [dimensions]map[string][]*Policy
	// prefixes belongs to byPath, whose table has the exact paths.
	prefixes map[string][]*Policy
	// lengths are the lengths of the keys in prefixes.
	lengths []int
	// headers belongs to byHeader, by name and value.
	headers map[string]map[string][]*Policy
	// models are the lengths of the keys in byModel's table, which are prefixes of globs.
	models []int
	// rest are the policies that can't be indexed: every request is compared with them.
	rest []*Policy
}

// key is a key of the index.
type key struct {
	dimension dimension
	prefix    bool
	header    string
	value     string
}

func buildIndex(policies []*Policy) index {
	shared := map[key]int{}
	for _, p := range policies {
		for d := range dimensions {
			for _, k := range p.selector.keys(d) {
				shared[k]++
			}
		}
	}
	x := index{prefixes: map[string][]*Policy{}, headers: map[string]map[string][]*Policy{}}
	for d := range x.tables {
		x.tables[d] = map[string][]*Policy{}
	}
	for _, p := range policies {
		x.add(p, p.selector.best(shared))
	}
	x.models, x.lengths = keyLengths(x.tables[byModel]), keyLengths(x.prefixes)
	return x
}

// keyLengths returns the distinct lengths of a table's keys, in rising order.
func keyLengths(table map[string][]*Policy) []int {
	lengths := map[int]struct{}{}
	for prefix := range table {
		lengths[len(prefix)] = struct{}{}
	}
	return slices.Sorted(maps.Keys(lengths))
}

func (x *index) add(p *Policy, keys []key) {
	if len(keys) == 0 {
		x.rest = append(x.rest, p)
	}
	for _, k := range keys {
		table := x.tables[k.dimension]
		switch {
		case k.prefix:
			table = x.prefixes
		case k.dimension == byHeader:
			if x.headers[k.header] == nil {
				x.headers[k.header] = map[string][]*Policy{}
			}
			table = x.headers[k.header]
		}
		table[k.value] = append(table[k.value], p)
	}
}

// best returns the selector's keys in the dimension in which the fewest policies share them;
// none if the selector has no keys.
func (m *matcher) best(shared map[key]int) []key {
	var best []key
	least := 0
	for d := range dimensions {
		keys := m.keys(d)
		most := 0
		for _, k := range keys {
			most = max(most, shared[k])
		}
		if len(keys) > 0 && (best == nil || most < least) {
			best, least = keys, most
		}
	}
	return best
}

// keys returns the selector's keys in a dimension; none if it does not restrict the dimension
// to values that can be looked up.
func (m *matcher) keys(d dimension) []key {
	switch d {
	case byCaller:
		return setKeys(d, m.caller)
	case byProject:
		return setKeys(d, m.project)
	case byTenant:
		return setKeys(d, m.tenant)
	case byHost:
		return setKeys(d, m.hosts)
	case byUpstream:
		return setKeys(d, m.upstream)
	case byPath:
		keys := setKeys(d, m.exact)
		for _, prefix := range m.prefixes {
			keys = append(keys, key{dimension: d, prefix: true, value: prefix})
		}
		return keys
	case byModel:
		return m.modelKeys()
	default:
		return m.headerKeys()
	}
}

func setKeys(d dimension, s set) []key {
	keys := make([]key, 0, len(s))
	for _, value := range slices.Sorted(maps.Keys(s)) {
		keys = append(keys, key{dimension: d, value: value})
	}
	return keys
}

// modelKeys returns the literal prefixes of the globs, if all of them have one.
func (m *matcher) modelKeys() []key {
	keys := make([]key, 0, len(m.models))
	for _, models := range m.models {
		prefix, _ := glob.Prefix(models)
		if prefix == "" {
			return nil
		}
		keys = append(keys, key{dimension: byModel, value: prefix})
	}
	return keys
}

// headerKeys returns the first header whose value has no wildcard.
func (m *matcher) headerKeys() []key {
	for _, h := range m.headers {
		if _, whole := glob.Prefix(h.value); whole && h.value != "" {
			return []key{{dimension: byHeader, header: h.name, value: h.value}}
		}
	}
	return nil
}

// lookup appends the matching policies in any order. A policy may occur twice.
func (x *index) lookup(dst []*Policy, r *Request, host string) []*Policy {
	dst = collect(dst, x.rest, r, host)
	dst = collect(dst, x.tables[byCaller][r.Caller], r, host)
	dst = collect(dst, x.tables[byProject][r.Project], r, host)
	dst = collect(dst, x.tables[byTenant][r.Tenant], r, host)
	dst = collect(dst, x.tables[byHost][host], r, host)
	dst = collect(dst, x.tables[byUpstream][r.Upstream], r, host)
	dst = collect(dst, x.tables[byPath][r.Path], r, host)
	dst = collectPrefixes(dst, x.prefixes, x.lengths, r.Path, r, host)
	for _, path := range r.Also {
		dst = collect(dst, x.tables[byPath][path], r, host)
		dst = collectPrefixes(dst, x.prefixes, x.lengths, path, r, host)
	}
	for name, values := range x.headers {
		if value := r.header(name); value != "" {
			dst = collect(dst, values[value], r, host)
		}
	}
	return collectPrefixes(dst, x.tables[byModel], x.models, r.Model, r, host)
}

// collectPrefixes looks up the prefixes of a value with the table's key lengths.
func collectPrefixes(dst []*Policy, table map[string][]*Policy, lengths []int, value string, r *Request, host string) []*Policy {
	for _, length := range lengths {
		if length > len(value) {
			break
		}
		dst = collect(dst, table[value[:length]], r, host)
	}
	return dst
}

func collect(dst, candidates []*Policy, r *Request, host string) []*Policy {
	for _, p := range candidates {
		if p.selector.matches(r, host) {
			dst = append(dst, p)
		}
	}
	return dst
}
