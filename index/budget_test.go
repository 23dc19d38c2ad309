package index

import (
	"strings"
	"testing"
)

func TestEstimateTokens(t *testing.T) {
	tests := []struct {
		text     string
		min, max int // what tokenizers say, and what is still a fair guess
	}{
		{"", 0, 0},
		{"a", 1, 1},
		{"hello world", 2, 4},
		{`{"server":"github","tool":"create_issue","score":0.87}`, 15, 22},
		{strings.Repeat("word ", 1000), 1000, 1500},
		{"使用必应搜索指定的关键词", 12, 18},
	}
	for _, tt := range tests {
		if got := EstimateTokens(tt.text); got < tt.min || got > tt.max {
			t.Errorf("%.20q: %d tokens, want %d to %d", tt.text, got, tt.min, tt.max)
		}
	}
}

func TestBudget(t *testing.T) {
	cost := func(n int) int { return n }
	b := NewBudget(10)
	kept, omitted := Cut(b, []int{4, 4, 4, 1}, cost)
	if len(kept) != 2 || omitted != 2 || b.Left() != 2 {
		t.Errorf("kept %v, omitted %d, left %d", kept, omitted, b.Left())
	}
	if b.Spend(3) || !b.Spend(2) || b.Left() != 0 {
		t.Error("spending is wrong")
	}
	if !b.Spend(EstimateTokens("")) || b.Spend(EstimateTokens("x")) {
		t.Error("an empty text is free and no other is")
	}
	if kept, omitted := Cut(NewBudget(-5), []int{1}, cost); len(kept) != 0 || omitted != 1 {
		t.Error("a negative budget buys something")
	}
	if kept, omitted := Cut(NewBudget(5), []int(nil), cost); kept != nil || omitted != 0 {
		t.Error("nothing is nothing")
	}
	if b := NewBudget(5); !b.Spend(-100) || b.Left() != 5 {
		t.Error("a negative cost earns something")
	}
}
