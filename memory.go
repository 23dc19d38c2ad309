package metamcp

import (
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/limits"
)

// watchMemory ends idle children while memory is short, before the kernel ends
// anything. Close ends the looks.
func (e *Engine) watchMemory(st *config.Settings) {
	m := e.opts.Memory
	if m.Groups == "" && m.Proc == "" {
		m = limits.MemoryOf(0)
	}
	m.Percent = st.Pool.MemoryPercent
	if m.Percent <= 0 {
		return
	}
	go m.Watch(e.reloads, e.memoryShort)
}

func (e *Engine) memoryShort(why string) {
	e.core.Squeeze(func(evicted int) {
		if evicted > 0 {
			e.log.Warn("memory is short; idle servers are ended", "why", why, "ended", evicted)
		}
	})
}
