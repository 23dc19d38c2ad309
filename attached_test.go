package metamcp

import (
	"testing"

	"github.com/metamcp/metamcp/integration/attach"
)

// A client forbids installing in whatever spelling its settings take, and in one
// that nobody takes.
func TestAttachedClientsThatForbidProvisioning(t *testing.T) {
	t.Parallel()
	for text, forbids := range map[string]bool{
		"false": true, "0": true, "no": true, "off": true, "False": true, "OFF": true, "": true, "nope": true, "true true": true,
		"true": false, "1": false, "yes": false, "on": false, "TRUE": false,
	} {
		if got := forbidsProvisioning(attach.Hello{Settings: map[string]string{settingAutoProvision: text}}); got != forbids {
			t.Errorf("%q: it forbids: %t", text, got)
		}
	}
	if forbidsProvisioning(attach.Hello{}) || forbidsProvisioning(attach.Hello{Settings: map[string]string{"scrub": "false"}}) {
		t.Error("a client that says nothing of it forbids it")
	}
}
