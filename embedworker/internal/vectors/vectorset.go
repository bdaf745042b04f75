package vectors

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unloop/unloop/embedworker/internal/compare"
	"github.com/unloop/unloop/schemas/details"
)

// compareInSet compares, appends and trims in one step, so that nothing comes
// between. An element's name is sequence:stored:expires:id, times in milliseconds
// of the worker's clock. TRUTH compares with every element: a set holds a handful, and the
// graph's approximation would save nothing.
//
// ARGV: vector, now, expires, ttl, keep, id, peek, attributes, give vectors,
// begin of the id of what is replaced.
// Reply: 1 if that was there, then for each entry age, id, similarity,
// attributes, vector.
var compareInSet = redis.NewScript(`
local key, now, keep, id, peek = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[5]), ARGV[6], ARGV[7] == '1'
local last, live = 0, {}
local near = redis.call('VSIM', key, 'FP32', ARGV[1], 'WITHSCORES', 'COUNT', 10000, 'TRUTH')
for i = 1, (near and #near or 0), 2 do
  local seq, at, expires, of = string.match(near[i], '^(%d+):(-?%d+):(-?%d+):(.*)$')
  seq = tonumber(seq)
  last = math.max(last, seq)
  if tonumber(expires) <= now or (id ~= '' and of == id) then
    if not peek then redis.call('VREM', key, near[i]) end
  else
    live[#live + 1] = {seq = seq, name = near[i], age = now - tonumber(at), id = of, score = near[i + 1]}
  end
end
table.sort(live, function(a, b) return a.seq > b.seq end)
local replaces, out = ARGV[10], {0}
for i = 1, (replaces ~= '' and #live or 0) do
  if string.sub(live[i].id, 1, #replaces) == replaces then
    if not peek then redis.call('VREM', key, live[i].name) end
    table.remove(live, i)
    out[1] = 1
    break
  end
end
for i = 1, math.min(keep, #live) do
  local e = live[i]
  local vector = ''
  if ARGV[9] == '1' then vector = redis.call('VEMB', key, e.name, 'RAW')[2] end
  out[i + 1] = {tostring(e.age), e.id, e.score, redis.call('VGETATTR', key, e.name) or '', vector}
end
if not peek then
  for i = keep, #live do redis.call('VREM', key, live[i].name) end
  local name = string.format('%d:%s:%s:%s', last + 1, ARGV[2], ARGV[3], id)
  redis.call('VADD', key, 'FP32', ARGV[1], name, 'NOQUANT', 'SETATTR', ARGV[8])
  if redis.call('PTTL', key) < tonumber(ARGV[4]) then redis.call('PEXPIRE', key, ARGV[4]) end
end
return out`)

// compare runs compareInSet on the scope of a request.
func (s *Redis) compare(ctx context.Context, r Request, now time.Time) (History, error) {
	key := "unloop:vectors:" + hex.EncodeToString(r.scopeHash())
	attrs, err := json.Marshal(attributes{
		Marks: strconv.FormatUint(uint64(r.Subject.Details), 10), Text: r.Text,
		Sentences: r.Subject.Sentences.Bytes(), Digest: strconv.FormatUint(r.Subject.Digest, 10),
	})
	if err != nil {
		return History{}, err
	}
	exchange := len(r.Subject.Halves) > 1
	reply, err := compareInSet.Run(ctx, s.client, []string{key},
		joined(r), now.UnixMilli(), now.Add(r.TTL).UnixMilli(), r.TTL.Milliseconds(), r.Keep,
		r.ID, flag(r.Peek), attrs, flag(exchange), r.Replaces).Slice()
	if err != nil {
		return History{}, err
	}
	return r.history(reply)
}

// history reads the script's reply.
func (r Request) history(reply []any) (History, error) {
	if len(reply) == 0 {
		return History{}, errors.New("empty reply about a history")
	}
	out := History{Replaced: reply[0] == int64(1)}
	for _, item := range reply[1:] {
		f, err := r.found(item)
		if err != nil {
			return History{}, err
		}
		out.Past = append(out.Past, f)
	}
	return out, nil
}

func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// found reads one entry of the script's reply.
func (r Request) found(item any) (f Found, err error) {
	var fields [5]string
	list, ok := item.([]any)
	if !ok || len(list) != len(fields) {
		return f, fmt.Errorf("entry %T of a history", item)
	}
	for i := range fields {
		if fields[i], ok = list[i].(string); !ok {
			return f, fmt.Errorf("field %T of a history", list[i])
		}
	}
	age, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return f, fmt.Errorf("age of an entry: %w", err)
	}
	score, err := strconv.ParseFloat(fields[2], 64)
	if err != nil {
		return f, fmt.Errorf("score of an entry: %w", err)
	}
	var attrs attributes
	if err := json.Unmarshal([]byte(fields[3]), &attrs); err != nil {
		return f, fmt.Errorf("attributes of an entry: %w", err)
	}
	f = Found{ID: fields[1], Text: attrs.Text, Age: time.Duration(age) * time.Millisecond}
	f.SameDetails = sameDetails(attrs.Marks, r.Subject.Details)
	f.Similarity = r.similarity(score, fields[4])
	f.Past = r.Subject.Compared(f.Past, compare.SentencesOf(attrs.Sentences), digestOf(attrs.Digest))
	return f, nil
}

func sameDetails(stored string, of details.Sum) bool {
	sum, err := strconv.ParseUint(stored, 10, 64)
	return err == nil && details.Sum(sum) == of
}

// digestOf reads a digest; anything else is the unknown one.
func digestOf(stored string) uint64 {
	digest, err := strconv.ParseUint(stored, 10, 64)
	if err != nil {
		return 0
	}
	return digest
}

// similarity of one text is the store's own, 1 - distance/2; that of an
// exchange is computed from the halves, because the store compares the whole.
func (r Request) similarity(score float64, vector string) float64 {
	if n := len(r.Subject.Halves); n > 1 {
		return compare.Similarity(r.Subject, halves([]byte(vector), n))
	}
	return compare.FromDistance(2 * (1 - score))
}
