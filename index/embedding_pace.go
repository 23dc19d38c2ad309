package index

import "time"

const (
	// paceTimes is how often a server may have all its tools embedded at once.
	paceTimes = 4
	// paceLeast is the least that every server may have embedded at once.
	paceLeast = 256
	// paceRefill is how long a server takes to earn that again.
	paceRefill = 10 * time.Minute
	// paceWake is how often the index looks whether a server that used up what
	// it may has earned enough for a batch.
	paceWake = 30 * time.Second
)

// pace is a token bucket for one server: it bounds what a server that changes
// its tools for ever makes the embedder do. Its tools are found by their words
// meanwhile.
type pace struct {
	spent float64 // tokens that are missing from a full bucket
	at    time.Time
}

// paces are the buckets of the servers that have spent something; the index
// actor owns them.
type paces map[string]*pace

// paceOf is what a server with so many tools may have embedded at once.
func paceOf(tools int) int { return max(paceLeast, paceTimes*tools) }

// spend takes n tokens of a server's.
func (p paces) spend(server string, n, tools int, now time.Time) {
	b := p[server]
	if b == nil {
		b = &pace{at: now}
		p[server] = b
	}
	b.refill(tools, now)
	b.spent += float64(n)
}

// spent returns what each server has spent of its bucket. Servers whose bucket
// is full again, and those that tools does not know, are forgotten.
func (p paces) spent(tools func(server string) int, now time.Time) map[string]int {
	out := make(map[string]int, len(p))
	for server, b := range p {
		n := tools(server)
		if b.refill(n, now); b.spent == 0 || n == 0 {
			delete(p, server)
			continue
		}
		out[server] = int(b.spent)
	}
	return out
}

func (b *pace) refill(tools int, now time.Time) {
	earned := float64(paceOf(tools)) * float64(now.Sub(b.at)) / float64(paceRefill)
	b.spent, b.at = max(0, b.spent-max(0, earned)), now
}
