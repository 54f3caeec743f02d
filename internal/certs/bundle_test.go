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

func TestMergeBundles(t *testing.T) {
	former := newCA(t, "old", testStart)
	current := newCA(t, "new", testStart.AddDate(0, 8, 0))
	future := newCA(t, "future", testStart.AddDate(5, 0, 0))
	server := newCA(t, "server", testStart, func(template *x509.Certificate) { template.IsCA = false })
	now := testStart.AddDate(0, 9, 0)
	formerExpires := testStart.AddDate(1, 0, 0)
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	invalid := pem.EncodeToMemory(&pem.Block{Type: pemTypeCertificate, Bytes: []byte("no DER")})

	for name, c := range map[string]struct {
		current, existing []byte
		now               time.Time
		want              []byte
		wantDropped       []string // a part of each message
	}{
		"no certificates": {
			now: now,
		},
		"a configuration without a bundle gets the current CA": {
			current: encodeBundle(current),
			now:     now,
			want:    encodeBundle(current),
		},
		"the former CA follows the current CA": {
			current:  encodeBundle(current),
			existing: encodeBundle(former),
			now:      now,
			want:     encodeBundle(current, former),
		},
		"the order of the input does not matter": {
			current:  encodeBundle(former),
			existing: encodeBundle(former, current),
			now:      now,
			want:     encodeBundle(current, former),
		},
		"duplicates of several webhooks are merged": {
			current:  encodeBundle(current),
			existing: encodeBundle(former, current, former, current),
			now:      now,
			want:     encodeBundle(current, former),
		},
		"existing CAs remain while the Secret is empty": {
			existing: encodeBundle(former),
			now:      now,
			want:     encodeBundle(former),
		},
		"an expired CA is dropped": {
			current:     encodeBundle(current),
			existing:    encodeBundle(former),
			now:         formerExpires.AddDate(0, 0, 1),
			want:        encodeBundle(current),
			wantDropped: []string{`CN=old", serial`},
		},
		"NotAfter is the last moment of validity (RFC 5280, 4.1.2.5)": {
			current:  encodeBundle(current),
			existing: encodeBundle(former),
			now:      formerExpires,
			want:     encodeBundle(current, former),
		},
		"a CA from a replica with a fast clock remains": {
			current:  encodeBundle(current),
			existing: encodeBundle(future),
			now:      now,
			want:     encodeBundle(future, current),
		},
		"a certificate that is not a CA is dropped": {
			current:     encodeBundle(current),
			existing:    encodeBundle(server),
			now:         now,
			want:        encodeBundle(current),
			wantDropped: []string{"not a CA"},
		},
		"a private key is dropped": {
			current:     append(slices.Clone(key), encodeBundle(current)...),
			now:         now,
			want:        encodeBundle(current),
			wantDropped: []string{`PEM block "PRIVATE KEY"`},
		},
		"a certificate after an invalid block remains": {
			current:     encodeBundle(current),
			existing:    append(slices.Clone(invalid), encodeBundle(former)...),
			now:         now,
			want:        encodeBundle(current, former),
			wantDropped: []string{"certificate: x509"},
		},
		"text that is not PEM is dropped": {
			current:     encodeBundle(current),
			existing:    []byte("Cg== \x00\xff"),
			now:         now,
			want:        encodeBundle(current),
			wantDropped: []string{"not PEM"},
		},
		"blank lines are ignored": {
			current:  encodeBundle(current),
			existing: slices.Concat([]byte("\n\n"), encodeBundle(former), []byte("\n \n")),
			now:      now,
			want:     encodeBundle(current, former),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, dropped := mergeBundles(c.current, c.existing, c.now)
			if diff := cmp.Diff(string(c.want), string(got)); diff != "" {
				t.Errorf("the bundle differs (-want +got):\n%s", diff)
			}
			if len(dropped) != len(c.wantDropped) {
				t.Fatalf("dropped = %q, want %q", dropped, c.wantDropped)
			}
			for i, want := range c.wantDropped {
				if !strings.Contains(dropped[i], want) {
					t.Errorf("dropped[%d] = %q, want a message with %q", i, dropped[i], want)
				}
			}
		})
	}
}

// TestMergeBundlesLimit checks that the size of a bundle is limited, and that the bundle contains the
// current CA even if it is the oldest.
func TestMergeBundlesLimit(t *testing.T) {
	current := newCA(t, "current", testStart)
	var others []testCA
	for i := range 2 * maxAuthorities {
		others = append(others, newCA(t, fmt.Sprintf("other %d", i), testStart.Add(time.Duration(i+1)*time.Hour)))
	}
	newest := slices.Clone(others[maxAuthorities+1:])
	slices.Reverse(newest)

	got, dropped := mergeBundles(encodeBundle(current), encodeBundle(others...), testStart.AddDate(0, 1, 0))
	if diff := cmp.Diff(string(encodeBundle(append(newest, current)...)), string(got)); diff != "" {
		t.Errorf("the bundle must contain the newest CAs and the current CA (-want +got):\n%s", diff)
	}
	if want := maxAuthorities + 1; len(dropped) != want {
		t.Errorf("%d certificates were dropped, want %d: %q", len(dropped), want, dropped)
	}
}

// FuzzMergeBundles checks the guarantees of mergeBundles for arbitrary input.
func FuzzMergeBundles(f *testing.F) {
	a, b := newCA(f, "a", testStart), newCA(f, "b", testStart.AddDate(0, 8, 0))
	f.Add(encodeBundle(a), encodeBundle(b, a))
	f.Add(encodeBundle(b), append(encodeBundle(a), "text"...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), []byte(nil))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"), encodeBundle(a, a, b))
	now := testStart.AddDate(0, 9, 0)

	f.Fuzz(func(t *testing.T, current, existing []byte) {
		got, _ := mergeBundles(current, existing, now)

		cas, dropped := parseAuthorities(got, now)
		if len(dropped) > 0 {
			t.Errorf("the bundle contains parts that must be dropped: %q", dropped)
		}
		currentCAs, _ := parseAuthorities(current, now)
		for _, ca := range currentCAs {
			if !slices.ContainsFunc(cas, ca.Equal) {
				t.Errorf("the current CA %s is missing", ca.Subject)
			}
		}
		inputCAs, _ := parseAuthorities(existing, now)
		inputCAs = append(inputCAs, currentCAs...)
		for _, ca := range cas {
			if !slices.ContainsFunc(inputCAs, ca.Equal) {
				t.Errorf("the CA %s is not in the input", ca.Subject)
			}
		}
		if !slices.IsSortedFunc(cas, compareNewestFirst) {
			t.Error("the bundle is not in canonical order")
		}
		if again, _ := mergeBundles(current, got, now); !bytes.Equal(again, got) {
			t.Errorf("a second merge changes the bundle:\n%s\nto\n%s", got, again)
		}
		if len(inputCAs) <= maxAuthorities {
			if swapped, _ := mergeBundles(existing, current, now); !bytes.Equal(swapped, got) {
				t.Errorf("the bundle depends on the order of the parameters:\n%s\nor\n%s", got, swapped)
			}
		}
	})
}
