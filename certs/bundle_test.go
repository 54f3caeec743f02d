package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMerge(t *testing.T) {
	old := newCA(t, "old", start)
	present := newCA(t, "new", start.AddDate(0, 8, 0))
	future := newCA(t, "future", start.AddDate(5, 0, 0))
	server := newCA(t, "server", start, func(c *x509.Certificate) { c.IsCA = false })
	now := start.AddDate(0, 9, 0)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	broken := pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: []byte("no DER")})

	cases := map[string]struct {
		reason            string
		current, existing []byte
		now               time.Time
		want              []byte
		wantDropped       []string // One substring for each.
	}{
		"Nothing": {
			reason: "No certificates make no bundle.",
			now:    now,
		},
		"First": {
			reason:  "A configuration without a bundle gets the current CA.",
			current: bundleOf(present), now: now,
			want: bundleOf(present),
		},
		"Rotation": {
			reason:  "The former CA stays, behind the current one.",
			current: bundleOf(present), existing: bundleOf(old), now: now,
			want: bundleOf(present, old),
		},
		"OrderOfInput": {
			reason:  "Replicas that see the certificates in another order make the same bundle.",
			current: bundleOf(old), existing: bundleOf(old, present), now: now,
			want: bundleOf(present, old),
		},
		"Duplicates": {
			reason:  "What several webhooks remember is there once.",
			current: bundleOf(present), existing: bundleOf(old, present, old, present), now: now,
			want: bundleOf(present, old),
		},
		"NoCurrent": {
			reason:   "While the Secret is empty, what is known is kept.",
			existing: bundleOf(old), now: now,
			want: bundleOf(old),
		},
		"Expired": {
			reason:  "An expired CA vouches for nothing and goes.",
			current: bundleOf(present), existing: bundleOf(old), now: start.AddDate(1, 0, 1),
			want: bundleOf(present), wantDropped: []string{`CN=old", serial`},
		},
		"ExpiresNow": {
			reason:  "NotAfter is the last moment of validity (RFC 5280, 4.1.2.5).",
			current: bundleOf(present), existing: bundleOf(old), now: start.AddDate(1, 0, 0),
			want: bundleOf(present, old),
		},
		"NotYetValid": {
			reason:  "A CA of a replica whose clock is ahead will be needed.",
			current: bundleOf(present), existing: bundleOf(future), now: now,
			want: bundleOf(future, present),
		},
		"NotCA": {
			reason:  "A certificate that may not sign does not belong in a bundle.",
			current: bundleOf(present), existing: bundleOf(server), now: now,
			want: bundleOf(present), wantDropped: []string{"not a CA"},
		},
		"PrivateKey": {
			reason:  "A key that got into a bundle is not published any longer.",
			current: append(slices.Clone(key), bundleOf(present)...), now: now,
			want: bundleOf(present), wantDropped: []string{`PEM block "PRIVATE KEY"`},
		},
		"Unparsable": {
			reason:  "A block without a certificate in it is left out, what follows is not.",
			current: bundleOf(present), existing: append(slices.Clone(broken), bundleOf(old)...), now: now,
			want: bundleOf(present, old), wantDropped: []string{"certificate: x509"},
		},
		"Garbage": {
			reason:  "Text is left out.",
			current: bundleOf(present), existing: []byte("Cg== \x00\xff"), now: now,
			want: bundleOf(present), wantDropped: []string{"not PEM"},
		},
		"Whitespace": {
			reason:  "Blank lines between and around certificates are nothing to speak of.",
			current: bundleOf(present), existing: slices.Concat([]byte("\n\n"), bundleOf(old), []byte("\n \n")), now: now,
			want: bundleOf(present, old),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, dropped := merge(tc.current, tc.existing, tc.now)
			if diff := cmp.Diff(string(tc.want), string(got)); diff != "" {
				t.Errorf("%s\nmerge(...): -want, +got:\n%s", tc.reason, diff)
			}
			if len(dropped) != len(tc.wantDropped) {
				t.Fatalf("%s\nmerge(...): dropped %q, want %q", tc.reason, dropped, tc.wantDropped)
			}
			for i, want := range tc.wantDropped {
				if !strings.Contains(dropped[i], want) {
					t.Errorf("%s\nmerge(...): dropped %q, want one with %q", tc.reason, dropped[i], want)
				}
			}
		})
	}
}

// TestMergeLimit checks that a bundle does not grow without end, and that the current CA is safe from the limit even
// if it looks like the oldest.
func TestMergeLimit(t *testing.T) {
	current := newCA(t, "current", start)
	var others []testCA
	for i := range 2 * maxAuthorities {
		others = append(others, newCA(t, fmt.Sprintf("other %d", i), start.Add(time.Duration(i+1)*time.Hour)))
	}
	newest := slices.Clone(others[maxAuthorities+1:])
	slices.Reverse(newest)

	got, dropped := merge(bundleOf(current), bundleOf(others...), start.AddDate(0, 1, 0))
	if diff := cmp.Diff(string(bundleOf(append(newest, current)...)), string(got)); diff != "" {
		t.Errorf("merge(...): want the newest and the current one: -want, +got:\n%s", diff)
	}
	if want := maxAuthorities + 1; len(dropped) != want {
		t.Errorf("merge(...): %d dropped, want %d: %q", len(dropped), want, dropped)
	}
}

// FuzzMerge checks what has to hold for any input whatever.
func FuzzMerge(f *testing.F) {
	a, b := newCA(f, "a", start), newCA(f, "b", start.AddDate(0, 8, 0))
	f.Add(bundleOf(a), bundleOf(b, a))
	f.Add(bundleOf(b), append(bundleOf(a), "text"...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte(nil))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"), bundleOf(a, a, b))
	now := start.AddDate(0, 9, 0)

	f.Fuzz(func(t *testing.T, current, existing []byte) {
		got, _ := merge(current, existing, now)

		cas, dropped := authorities(got, now)
		if len(dropped) > 0 {
			t.Errorf("the result has parts that must be dropped: %q", dropped)
		}
		wanted, _ := authorities(current, now)
		for _, ca := range wanted {
			if !slices.ContainsFunc(cas, ca.Equal) {
				t.Errorf("a current CA is missing: %s", ca.Subject)
			}
		}
		known, _ := authorities(existing, now)
		known = append(known, wanted...)
		for _, ca := range cas {
			if !slices.ContainsFunc(known, ca.Equal) {
				t.Errorf("a CA came from nowhere: %s", ca.Subject)
			}
		}
		if !slices.IsSortedFunc(cas, newestFirst) {
			t.Error("not in canonical order")
		}
		if again, _ := merge(current, got, now); !bytes.Equal(again, got) {
			t.Errorf("merging again changes the result:\n%s\nbecomes\n%s", got, again)
		}
		if len(known) <= maxAuthorities {
			if swapped, _ := merge(existing, current, now); !bytes.Equal(swapped, got) {
				t.Errorf("the result depends on where a CA came from:\n%s\nor\n%s", got, swapped)
			}
		}
	})
}
