package messages

import "time"

// Code names what kind of failure an [Error] is; the list is closed and part
// of the product's interface.
type Code string

// The codes that users and models see.
const (
	CodeConfiguration    Code = "CONFIGURATION_ERROR"
	CodeConnection       Code = "SERVER_CONNECTION_ERROR"
	CodeServerNotFound   Code = "SERVER_NOT_FOUND"
	CodeToolNotFound     Code = "TOOL_NOT_FOUND"
	CodeToolDisabled     Code = "TOOL_DISABLED"
	CodeValidation       Code = "VALIDATION_ERROR"
	CodeToolExecution    Code = "TOOL_EXECUTION_ERROR"
	CodeExecutionTimeout Code = "TOOL_EXECUTION_TIMEOUT"
	CodeCircuitOpen      Code = "CIRCUIT_OPEN"
	CodePoolSaturated    Code = "POOL_SATURATED"
	CodeCancelled        Code = "CANCELLED"
	CodeShuttingDown     Code = "SHUTTING_DOWN"
	CodeSandbox          Code = "SANDBOX_ERROR"
	CodeProvisionDenied  Code = "PROVISION_DENIED"
	CodeResourceNotFound Code = "RESOURCE_NOT_FOUND"
	CodePromptNotFound   Code = "PROMPT_NOT_FOUND"
	CodeTaskNotFound     Code = "TASK_NOT_FOUND"
	// CodeHostAway is of a client whose host ended and is not back.
	CodeHostAway Code = "HOST_AWAY"
)

// Class says which part of the world failed. It decides whether a breaker
// counts the failure: [ClassAuth] never counts, nor does [ClassNone], which is no
// failure; the others do.
type Class string

// The five error classes.
const (
	ClassNone      Class = ""
	ClassAuth      Class = "auth"
	ClassOffline   Class = "offline"
	ClassHTTP      Class = "http"
	ClassStdioExit Class = "stdio-exit"
	ClassOther     Class = "other"
)

// Error is the one error type that crosses the edges of the runtime: to the
// model, to the command line and to an embedding program.
type Error struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"` // what failed and why, in one line
	Server    string `json:"server,omitempty"`
	Tool      string `json:"tool,omitempty"`
	Class     Class  `json:"class,omitempty"`
	Retryable bool   `json:"retryable"`
	Hint      string `json:"hint,omitempty"` // what the reader should do next
	// RetryAfter is how long from the moment the error was made a new attempt
	// makes no sense; 0 when there is no such time.
	RetryAfter time.Duration `json:"-"`
	// Details are further lines: bad paths of an argument, nearest names, the
	// end of a child's stderr.
	Details []string `json:"details,omitempty"`
	// Cause is the raw evidence, for logs and errors.Is; never shown to a model.
	Cause error `json:"-"`
}

// Error returns code and message, for people.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Evidence is what is known of a failed connection, typed before it is text,
// so that classification never has to guess where the system said it plainly.
type Evidence struct {
	Err        error         // error value with an errno, a net or exec error in its chain; may be nil
	Exit       *Exit         // how the process ended; nil while it lives
	EOF        bool          // the stream ended in the middle of a conversation
	Timeout    bool          // a deadline of ours passed
	HTTPStatus int           // 0 when there was none
	RetryAfter time.Duration // from a Retry-After header
	Text       string        // anything else: an error message of the child, last lines of stderr
	Remote     bool          // the server is behind a URL: there is no process of ours
	Starting   bool          // the handshake was not over
	Limits     Limits        // of the server's processes
	// Log is the end of the stderr of a process that lives, to be shown. Nothing is
	// made of it: what a server wrote before it hung need not be why.
	Log []string
	// NotRun says of one request that the server did not carry it out: it refused
	// it, or did not get it.
	NotRun bool
	// Advice is what to do, for people, where the transport knows it better than
	// what can be told from the rest; else "".
	Advice string
}
