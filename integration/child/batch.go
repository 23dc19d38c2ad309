package child

// elements calls each for every element of a JSON array and reports whether
// the array had an end and at least one element. Only brackets and strings are
// looked at; whoever reads an element finds what else is wrong with it.
//
// Arrays of messages are a batch: the 2025-03-26 revision has them.
func elements(array []byte, each func(element []byte)) bool {
	depth, start, count := 0, 1, 0
	inString := false
	for i := 0; i < len(array); i++ {
		switch c := array[i]; {
		case inString:
			switch c {
			case '\\':
				i++
			case '"':
				inString = false
			}
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			depth++
		case c == ',' && depth == 1:
			each(array[start:i:i])
			count++
			start = i + 1
		case c == ']' || c == '}':
			depth--
			if depth == 0 {
				last := array[start:i:i]
				if count > 0 || !blank(last) {
					each(last)
					count++
				}
				return count > 0 && i == len(array)-1
			}
		}
	}
	return false
}

func blank(b []byte) bool {
	for _, c := range b {
		if !isBlank(c) {
			return false
		}
	}
	return true
}
