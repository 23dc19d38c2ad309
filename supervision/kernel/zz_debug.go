package kernel

func (s *System) DebugAlive() []string {
	var out []string
	for _, m := range s.as.ProcessRegistry.LocalPIDs.LocalPIDs {
		out = append(out, m.Keys()...)
	}
	return out
}
