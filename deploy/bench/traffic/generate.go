package traffic

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Figures of generated sessions.
const (
	generatedTurns = 12
	instructions   = 600 // bytes of a system prompt
	leastResult    = 150 // bytes of a tool's result
	meanResult     = 1350
	mostResult     = 4200
)

// Generate returns sessions that resemble recorded ones: 12 requests with tool rounds, bodies
// of 2 to 60 KB, 12 KB on average. The same seed gives the same sessions.
func Generate(n int, seed uint64) ([]Session, error) {
	return each(n, seed, func(draw *rand.Rand) (Session, error) {
		size := resultSize(draw)
		messages := beginning(draw)
		for round := range generatedTurns - 1 {
			messages = append(messages, roundOf(draw, round, int(float64(size)*(0.5+draw.Float64())))...)
		}
		return newSession("gpt-5", append(messages, message{Role: "assistant", Content: "Done."}), 0, maxBody)
	})
}

// each makes n sessions, each from its own random numbers.
func each(n int, seed uint64, make func(draw *rand.Rand) (Session, error)) (out []Session, err error) {
	for i := range n {
		s, err := make(rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// resultSize draws the size of a tool's result.
func resultSize(draw *rand.Rand) int {
	return leastResult + int(min(draw.ExpFloat64()*(meanResult-leastResult), mostResult))
}

// Figures of long sessions.
const (
	longFrom  = 1_000_000 // bytes of the first request
	longTurns = 30
)

// Long returns sessions with long histories: their requests begin at 1 MB and grow by a round
// each. The same seed gives the same sessions.
func Long(n int, seed uint64) ([]Session, error) {
	return each(n, seed, func(draw *rand.Rand) (Session, error) {
		messages, size := beginning(draw), 0
		for round := 0; len(messages) < 2*longTurns || size < longFrom; round++ {
			next := roundOf(draw, round, resultSize(draw))
			text := inLines(fmt.Sprint(next[1].Content))
			next[1].Content, size = text, size+len(text)+400
			messages = append(messages, next...)
		}
		return newSession("gpt-5", messages, len(messages)-2*longTurns, 2*longFrom)
	})
}

// inLines breaks a text after every few words, as programs and files do.
func inLines(text string) string {
	words := strings.Fields(text)
	for i := 9; i < len(words); i += 9 {
		words[i] = "\n" + words[i]
	}
	return strings.ReplaceAll(strings.Join(words, " "), " \n", "\n")
}

// beginning returns the system prompt, which all generated sessions share, and a task.
func beginning(draw *rand.Rand) []message {
	return []message{
		{Role: "system", Content: "You are an agent that works with tools. " + Words(rand.New(rand.NewPCG(0, 0)), instructions)},
		{Role: "user", Content: Words(draw, 200)},
	}
}

// roundOf returns a tool call and a result of about the given size.
func roundOf(draw *rand.Rand, round, size int) []message {
	names := []string{"read_file", "search_code", "run_tests", "edit_file", "list_files"}
	var c call
	c.ID, c.Type = fmt.Sprintf("call_%d_%08x", round, draw.Uint32()), "function"
	c.Function.Name = names[draw.IntN(len(names))]
	c.Function.Arguments = fmt.Sprintf(`{"path":%q,"query":%q}`, strings.ReplaceAll(Words(draw, 30), " ", "/"), Words(draw, 40))
	return []message{
		{Role: "assistant", ToolCalls: []call{c}},
		{Role: "tool", ToolCallID: c.ID, Content: Words(draw, size)},
	}
}

// Words returns random words of the given length in bytes.
func Words(draw *rand.Rand, size int) string {
	var text []byte
	for len(text) < size {
		text = append(append(text, ' '), vocabulary[draw.IntN(len(vocabulary))]...)
	}
	return string(text[min(1, len(text)):min(size+1, len(text))])
}

// vocabulary are the words of generated texts.
var vocabulary = strings.Fields(`account address battery billing blue broken button cable cancel card case
	change charge customer delay delivery device door email error failed file gift green heat invoice item key label late
	light lock login lost mail missing money month number offer order paid parcel password phone photo price printer
	profile question red refund reply return room safe screen sent ship size slow sound stock store tax ticket time
	track truck twice update user version voucher week window wrong year`)
