package messages

import "strconv"

// maxRecordedName is how long a name may be that a record tells, in bytes, before
// secrets are taken out of it and it is cut to what the record shows.
const maxRecordedName = 4096

// RecordedName is a name for a record, be it of a server, a tool or a client, that
// whoever sent it may have made up: whole, so that a secret in it can still be found
// and taken out, or its length alone where nobody needs so long a name. It holds on to
// no long text.
func RecordedName(name string) string {
	if len(name) <= maxRecordedName {
		return name
	}
	return "a name of " + strconv.Itoa(len(name)) + " bytes"
}
