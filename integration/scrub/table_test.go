package scrub

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// What a Set learns later is as good as what it knew from the beginning: in whatever
// parts and order the same comes, the same is found and goes by the same name, also
// where secrets begin, end and overlap with each other, or are the same.
func TestWithIsNewWithMore(t *testing.T) {
	words := []string{"hunter-2", "hunter-2-horse", "2-horse-battery", "horse-battery", "battery/st+aple", "hunter-2-horse-battery", "aple\nhunter-2"}
	random := rand.New(rand.NewPCG(3, 4))
	var specs []*messages.ServerSpec
	for i := range 40 {
		value := words[random.IntN(len(words))]
		if random.IntN(3) == 0 {
			value += words[random.IntN(len(words))]
		}
		name := string(rune('a' + random.IntN(6)))
		switch i % 4 {
		case 0:
			specs = append(specs, &messages.ServerSpec{Env: []string{strings.ToUpper(name) + "_TOKEN=" + value}})
		case 1:
			specs = append(specs, &messages.ServerSpec{Filled: map[string]string{name: value}}) // not certain
		default:
			specs = append(specs, &messages.ServerSpec{Filled: map[string]string{"secret:oauth of " + name: value}})
		}
	}
	var texts [][]byte
	for range 200 {
		var text []byte
		for range 6 {
			text = append(text, words[random.IntN(len(words))]...)
			text = append(text, []string{"", "", " ", "\n"}[random.IntN(4)]...)
		}
		texts = append(texts, text)
	}
	want := New(specs)
	for range 20 {
		random.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
		got := New(specs[:random.IntN(len(specs))/2])
		before, had := got, slices.Sorted(values(got))
		rest := specs
		for len(rest) > 0 {
			n := 1 + random.IntN(len(rest))
			got, rest = got.With(rest[:n]), rest[n:]
		}
		if !slices.Equal(slices.Sorted(values(before)), had) {
			t.Fatal("the Set that learned no more was changed")
		}
		if got.known.n != want.known.n || !slices.Equal(slices.Sorted(values(got)), slices.Sorted(values(want))) {
			t.Fatalf("%d secrets are known, want %d", got.known.n, want.known.n)
		}
		for _, text := range texts {
			for _, certain := range []bool{false, true} {
				if g, w := got.appendFound(nil, text, certain), want.appendFound(nil, text, certain); !slices.Equal(g, w) {
					t.Fatalf("%q: %v, want %v", text, g, w)
				}
			}
			if g, w := got.Bytes(text), want.Bytes(text); !bytes.Equal(g, w) {
				t.Fatalf("%q: %q, want %q", text, g, w)
			}
			g, gotKinds := got.Counted(string(text))
			if w, kinds := want.Counted(string(text)); g != w || !maps.Equal(gotKinds, kinds) {
				t.Fatalf("%q: %q %v, want %q %v", text, g, gotKinds, w, kinds)
			}
		}
	}
}

// values tells all of each secret.
func values(s *Set) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range s.known.all {
			if !yield(fmt.Sprint(string(k.value), k.found, k.marker)) {
				return
			}
		}
	}
}

// A token that is new is no reason to look at thousands of others again.
func TestWithLeavesTheRestAlone(t *testing.T) {
	var specs []*messages.ServerSpec
	for i := range 3000 {
		specs = append(specs, &messages.ServerSpec{Env: []string{fmt.Sprintf("A_TOKEN=%x-of-server-%d", i*7919, i)}})
	}
	s := New(specs)
	token := []*messages.ServerSpec{{Filled: map[string]string{"secret:oauth of x": "a-t0ken-that-is-new"}}}
	more := s.With(token)
	changed := 0
	for i := range s.known.parts {
		if !maps.EqualFunc(s.known.parts[i], more.known.parts[i], func(a, b []secret) bool { return len(a) > 0 && &a[0] == &b[0] }) {
			changed++
		}
	}
	if writings := len(collect(token).written()); changed == 0 || changed > writings {
		t.Errorf("%d parts of what is known were made anew, want at most %d", changed, writings)
	}
	if got := more.Text("say a-t0ken-that-is-new"); got != "say [REDACTED:oauthofx]" {
		t.Errorf("%q", got)
	}
	if again := more.With(nil); again != more {
		t.Error("a Set that learns nothing was made anew")
	}
	if (*Set)(nil).With(token) != nil {
		t.Error("what takes nothing out has learned to")
	}
}
