package supervision_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// Secrets are taken out of what is said here once it was cut: the head of one that is
// cut off must not stay, since nobody recognizes it.
func TestNoWordIsCutInTwo(t *testing.T) {
	const secret = "hunter2hunter2hunter2"
	for n := 250; n < 310; n++ {
		text := strings.Repeat("words ", n/6) + strings.Repeat("x", n%6) + " key=" + secret + " and more"
		e := supervision.Describe("s", exitWith(1, "first", text))
		b := supervision.NewBreaker(1, time.Second, nil)
		b.OnFailure(epoch, messages.ClassOther, errors.New(text), 0)
		refusal := b.Refusal(epoch, "s")
		said := append([]string{e.Message, refusal.Message}, e.Details...)
		for _, s := range said {
			if s = strings.ReplaceAll(s, secret, ""); strings.Contains(s, secret[:4]) {
				t.Errorf("with %d bytes before it, a piece of the secret is in %q", n, s)
			}
		}
		if !strings.Contains(e.Details[len(e.Details)-1], "words words") {
			t.Errorf("the detail is %q", e.Details)
		}
	}
}

// What a child says on stderr stands in errors, which models read: it says nothing there
// that a person does not see.
func TestNothingHiddenIsSaid(t *testing.T) {
	e := supervision.Describe("s", exitWith(1, "first", "no \U000e0041\u2060\u200d\ufeffkey\u202e \x1b[31mfor\u3164 \xff 👩\u200d👧 ❤\ufe0f"))
	const want = "no key for \ufffd 👩\u200d👧 ❤\ufe0f"
	if got := e.Details[len(e.Details)-1]; got != want {
		t.Errorf("%+q, want %+q", got, want)
	}
}
