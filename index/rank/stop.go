package rank

import "strings"

// stopWords are English words that tell nothing about which tool is sought:
// articles, pronouns, prepositions, auxiliaries, and the phrases that requests
// begin with. Words that look like them and do tell tools apart are not among
// them: verbs of APIs (get, list, show), "all", "not", "no", "new",
// "up", "down", "off", "now", "when", "where".
var stopWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
		a an the this that these those
		i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
		im ive id ill youre youve its thats lets whats heres theres dont doesnt cant couldnt wouldnt isnt arent
		am is are was were be been being do does did doing have has had having
		will would shall should can could may might must
		of to in on at by for from with without within into onto about as than then so
		and or but if because while until also just only very too
		between among during whether either neither although though however
		there here which who whom whose what how why
		some any each other another such both more most much many
		please help want need like wish let kindly hey hi hello thanks thank
		s t d ll re ve m
		via per etc eg ie`) {
		m[w] = true
	}
	return m
}()
