package web

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/metamcp/metamcp/messages"
)

// The codes of a [failure] that are not codes of the runtime.
const (
	codeBadRequest = "BAD_REQUEST"
	codeForbidden  = "FORBIDDEN"
	codeToken      = "TOKEN_NEEDED"
	codeMethod     = "METHOD_NOT_ALLOWED"
	codeNotFound   = "NOT_FOUND"
	codeTooMany    = "TOO_MANY"
	codeInternal   = "INTERNAL"
	codeEnding     = string(messages.CodeShuttingDown)
)

// failure is what the page gets instead of an answer.
type failure struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (f *failure) Error() string { return f.Message }

// asFailure makes any failure of a host one that can be sent.
func asFailure(err error) *failure {
	var own *failure
	if errors.As(err, &own) {
		return own
	}
	var e *messages.Error
	if !errors.As(err, &e) {
		return &failure{http.StatusInternalServerError, codeInternal, err.Error(), ""}
	}
	status := http.StatusInternalServerError
	switch e.Code {
	case messages.CodeServerNotFound, messages.CodeToolNotFound:
		status = http.StatusNotFound
	case messages.CodeValidation:
		status = http.StatusBadRequest
	case messages.CodeShuttingDown, messages.CodePoolSaturated, messages.CodeCircuitOpen, messages.CodeConnection:
		status = http.StatusServiceUnavailable
	default:
	}
	return &failure{status, string(e.Code), e.Message, e.Hint}
}

func writeFailure(w http.ResponseWriter, err error) {
	f := asFailure(err)
	text, err := json.Marshal(f)
	if err != nil {
		text = []byte(`{"code":"` + codeInternal + `","message":"the error cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(append(text, '\n')) // a browser that has gone needs no answer
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		writeFailure(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a browser that has gone needs no answer
}
