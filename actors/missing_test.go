package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// Who reads the message alone sees where one problem ends and the next begins.
func TestValidationErrorSeparatesProblems(t *testing.T) {
	schema := `{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"n":{"type":"integer"}},"required":["from","to"],"additionalProperties":false}`
	problems := index.NewValidator([]byte(schema)).Validate([]byte(`{"form":"x","n":"y"}`))
	const head = `the arguments do not fit the input schema of "copy"; nothing was sent: `
	err := validationError(&messages.Call{Server: "files", Tool: "copy"}, problems)
	told := strings.Split(strings.TrimPrefix(err.Message, head), ";")
	for i := range told {
		told[i] = strings.TrimPrefix(told[i], " also ")
	}
	if len(problems) != 4 || !slices.Equal(told, err.Details) {
		t.Errorf("the message %q has %q, want %q", err.Message, told, err.Details)
	}
}

// Who reads the message alone learns of every argument that is missing, within a bound.
func TestValidationErrorNamesAllThatIsMissing(t *testing.T) {
	missing := func(names ...string) (list []index.Problem) {
		for _, n := range names {
			list = append(list, index.Problem{Path: n, Message: "required but missing, expected string"})
		}
		return list
	}
	call := &messages.Call{Server: "files", Tool: "copy"}
	const head = `the arguments do not fit the input schema of "copy"; nothing was sent: `
	for want, problems := range map[string][]index.Problem{
		head + "from: required but missing, expected string":                                                 missing("from"),
		head + "from: required but missing, expected string; also to: required but missing, expected string": missing("from", "to"),
	} {
		if got := validationError(call, problems).Message; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var many []string
	for i := range index.MaxProblems - 1 {
		many = append(many, fmt.Sprintf("argument%02d", i))
	}
	err := validationError(call, missing(many...))
	named := strings.Count(err.Message, "required")
	if rest := fmt.Sprintf("; and %d more", len(many)-named); named < 5 || !strings.HasSuffix(err.Message, rest) || len(err.Details) != len(many) {
		t.Errorf("%d details and the message %q", len(err.Details), err.Message)
	}
	err = validationError(call, missing(append(many, "last")...)) // as many as a validation reports
	if !strings.HasSuffix(err.Message, fmt.Sprintf("; and %d more, or there are others still", len(many)+1-named)) {
		t.Errorf("the message is %q", err.Message)
	}
}
