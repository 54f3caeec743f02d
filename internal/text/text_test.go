package text_test

import (
	"testing"

	"rollcall.training/internal/text"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		limit            int
	}{
		{name: "a text of the limit stays", text: "123456", limit: 6, want: "123456"},
		{name: "the ellipsis counts", text: "1234567", limit: 6, want: "123…"},
		{name: "a character is never split", text: "12é4567", limit: 6, want: "12…"},
		{name: "the smallest limit", text: "1234", limit: 3, want: "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text.Shorten(c.text, c.limit); got != c.want || len(got) > c.limit {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{name: "a line of the width stays", text: "ab cde", want: "ab cde"},
		{name: "the next word starts a line", text: "ab cdef g", want: "ab\ncdef g"},
		{name: "the next line has the indentation", text: "  ab c", want: "  ab c"},
		{name: "the words after the indentation do not fit", text: "  ab cde", want: "  ab\n  cde"},
		{name: "a long word has its own line", text: "a bcdefgh i", want: "a\nbcdefgh\ni"},
		{name: "a character is not a byte", text: "éé ééé", want: "éé ééé"},
		{name: "no word", text: " ", want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text.Wrap(c.text, 6); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestJoinLines(t *testing.T) {
	if got := text.JoinLines(" a\n\tb  c\n"); got != "a b c" {
		t.Errorf("got %q", got)
	}
}
