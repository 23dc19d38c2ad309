package jsonrpc

import "strconv"

// AppendText appends before, such as `,"name":`, and s as a JSON string; nothing
// where s is "". It and its siblings are for lines that are written for every call,
// where encoding/json costs more than the call.
func AppendText(dst []byte, before, s string) []byte {
	if s == "" {
		return dst
	}
	return AppendQuote(append(dst, before...), s)
}

// AppendUint appends before and n; nothing where n is 0.
func AppendUint(dst []byte, before string, n uint64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendUint(append(dst, before...), n, 10)
}

// AppendInt appends before and n; nothing where n is 0.
func AppendInt(dst []byte, before string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, before...), n, 10)
}
