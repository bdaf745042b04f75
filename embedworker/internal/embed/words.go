package embed

import (
	"strings"
	"sync"
)

// light lists the weights of English words that say little about a task. They have no
// apostrophes, like the words that are looked up.
var light = []struct {
	weight float32
	words  string
}{
	// Politeness, fillers and hedges, which a rephrasing adds and drops.
	{0.03, `please kindly thanks thank ok okay well so now just really very quite actually basically simply also too
		hi hello hey dear sorry oh ah um hmm sure yes yeah alright right maybe perhaps possibly probably
		could would can will shall may might should must want wants wanted need needs needed like love let lets help me us my our you your yours
		i im ill id ive we were well weve it its thats whats lets heres theres here there then than again once more still yet already soon today
		try tries trying tried retry attempt attempting attempts another time`},
	// Function words.
	{0.06, `a an the this that these those of in on at to for from by with into onto about as
		and or but if because while when where which who whom whose what why how is are was be been being am
		do does did doing done has have had having get gets got getting go goes going gone make makes
		he she they them their his her him some any each every all both either neither one ones such own same other
		only even ever through during between per via
		dont doesnt didnt isnt arent wasnt werent cant couldnt wouldnt shouldnt wont havent hasnt hadnt
		not no nor never none nothing something anything everything someone anyone everyone thing things stuff way`},
	// What retries say about the previous answer.
	{0.25, `valid invalid wrong incorrect correct correctly properly exactly
		answer answers answered output outputs response responses reply result results format formatted previous
		following follows below carefully instead unfortunately seems seem looks look see give giving given provide
		provided tell show return returned think believe know understand make sure ensure`},
	// Small words with an opposite.
	{0.5, `before after until above below over under without against up down out off`},
	{0.4, `json xml yaml markdown text string explain describe check error errors`},
}

// lightestStem is the smallest weight that a word inherits from its stem: "helping" may be the
// task, although "help" is politeness.
const lightestStem = 0.25

// lightWords maps the hash of a light word to its weight.
var lightWords = sync.OnceValue(func() map[uint64]float32 {
	weights := make(map[uint64]float32)
	for _, class := range light {
		for word := range strings.FieldsSeq(class.words) {
			h := hash(seedWord, []byte(word))
			if _, ok := weights[h]; !ok {
				weights[h] = class.weight
			}
		}
	}
	return weights
})
