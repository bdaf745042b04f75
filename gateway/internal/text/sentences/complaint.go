package sentences

import "strings"

// Classes of words of complaints about an answer.
const (
	filler = 1 // occurs beside others
	core   = 2 // a complaint has at least one of these
)

// complaints are the words, without apostrophes, of sentences that only ask for a better
// answer. Words for what is wrong (a brace, a field) are not among them: they may belong to
// the task.
var complaints = vocabulary(map[uint8]string{
	core: `again retry retrying retried wrong incorrect incorrectly invalid valid correct correctly unparseable parseable parse parsed
		malformed mistake mistaken attempt attempts error errors failed`,
	filler: `a an the this that these those it its thats i im you your youre we my me us
		is isnt are arent was wasnt were werent be been did didnt do does doesnt dont not no never
		has have hasnt havent can could couldnt would should must need needs
		please sorry oh ok okay so now just really still yet only once more another time
		last previous earlier before first second third one two three four five and but or in on of to at for as with
		try trying tried answer answers response responses reply output result results format formatted
		json xml yaml markdown text give return respond provide make sure fix there here`,
})

func vocabulary(classes map[uint8]string) map[string]uint8 {
	out := make(map[string]uint8)
	for class, words := range classes {
		for word := range strings.FieldsSeq(words) {
			out[word] = class
		}
	}
	return out
}
