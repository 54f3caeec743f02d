package certs

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

const testDNSName = "rollcall.rollcall-system.svc"

// configUpdate is an observation of a configuration.
type configUpdate struct {
	config       string
	observedTime time.Time
	configState
}

// newConfigState returns the state of a configuration with a webhook for each bundle.
func newConfigState(bundles ...[]byte) configState {
	state := configState{exists: true}
	for _, bundle := range bundles {
		state.webhooks = append(state.webhooks, configuredWebhook{name: "w", caBundle: bundle})
	}
	return state
}

func TestTrustTrackerVerifyLeaf(t *testing.T) {
	former, current := newCA(t, "ca", testStart), newCA(t, "ca", testStart.Add(time.Hour))
	t0 := testStart.Add(2 * time.Hour)
	t1, t2, now := t0.Add(time.Minute), t0.Add(2*time.Minute), t0.Add(3*time.Minute)
	leaf, _ := current.issueLeaf(t, testDNSName, t0)
	otherName, _ := current.issueLeaf(t, "other.rollcall-system.svc", t0)
	expired, _ := current.issueLeaf(t, testDNSName, t0.AddDate(0, 0, -8))
	trusted := []configUpdate{
		{"mutating", t0, newConfigState(encodeBundle(current))},
		{"validating", t0, newConfigState(encodeBundle(current))},
	}

	for name, c := range map[string]struct {
		updates   []configUpdate
		leaf      *x509.Certificate
		wantSince time.Time
		wantErr   string
	}{
		"a configuration was not read yet": {
			updates: []configUpdate{{"mutating", t0, newConfigState(encodeBundle(current))}},
			leaf:    leaf,
			wantErr: "validating: not read yet",
		},
		"a configuration that does not exist is ignored": {
			updates: []configUpdate{
				{"mutating", t0, newConfigState(encodeBundle(current))},
				{"validating", t0, configState{}},
			},
			leaf:      leaf,
			wantSince: t0,
		},
		"a configuration that was deleted does not change the time": {
			updates:   append(trusted[:2:2], configUpdate{"mutating", t1, configState{}}),
			leaf:      leaf,
			wantSince: t0,
		},
		"a recreated configuration without a bundle": {
			updates: append(trusted[:2:2],
				configUpdate{"mutating", t1, configState{}},
				configUpdate{"mutating", t2, newConfigState(nil)}),
			leaf:    leaf,
			wantErr: "no CA is in the caBundle of every webhook",
		},
		"no configuration exists": {
			updates: []configUpdate{
				{"mutating", t0, configState{}},
				{"validating", t0, configState{}},
			},
			leaf:    leaf,
			wantErr: "mutating, validating: does not exist",
		},
		"a configuration has no webhooks": {
			updates: []configUpdate{
				{"mutating", t0, newConfigState()},
				{"validating", t0, newConfigState(encodeBundle(current))},
			},
			leaf:    leaf,
			wantErr: "mutating: has no webhooks",
		},
		"a webhook has no bundle": {
			updates: []configUpdate{
				{"mutating", t0, newConfigState(encodeBundle(current), nil)},
				{"validating", t0, newConfigState(encodeBundle(current))},
			},
			leaf:    leaf,
			wantErr: "no CA is in the caBundle of every webhook",
		},
		"the common CA has the same subject but a different key": {
			updates: []configUpdate{
				{"mutating", t0, newConfigState(encodeBundle(former))},
				{"validating", t0, newConfigState(encodeBundle(current, former))},
			},
			leaf:    leaf,
			wantErr: "certificate signed by unknown authority",
		},
		"trust starts with the last bundle that gets the CA": {
			updates: []configUpdate{
				{"mutating", t0, newConfigState(encodeBundle(current))},
				{"validating", t1, newConfigState(encodeBundle(former, current))},
			},
			leaf:      leaf,
			wantSince: t1,
		},
		"an additional CA does not change the time": {
			updates:   append(trusted[:2:2], configUpdate{"mutating", t1, newConfigState(encodeBundle(current, former))}),
			leaf:      leaf,
			wantSince: t0,
		},
		"a CA that is removed and restored gets a new time": {
			updates: append(trusted[:2:2],
				configUpdate{"mutating", t1, newConfigState(nil)},
				configUpdate{"mutating", t2, newConfigState(encodeBundle(current))}),
			leaf:      leaf,
			wantSince: t2,
		},
		"the certificate has the name of another Service": {
			updates: trusted,
			leaf:    otherName,
			wantErr: "certificate is valid for other.rollcall-system.svc",
		},
		"the certificate has expired": {
			updates: trusted,
			leaf:    expired,
			wantErr: "certificate has expired",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tracker := newTrustTracker("mutating", "validating")
			for _, update := range c.updates {
				tracker.recordConfig(update.config, update.configState, update.observedTime)
			}
			since, err := tracker.verifyLeaf(c.leaf, testDNSName, now)
			if !since.Equal(c.wantSince) {
				t.Errorf("verifyLeaf returned the time %s, want %s", since, c.wantSince)
			}
			checkError(t, err, c.wantErr)
		})
	}
}

// checkError requires an error whose text contains want, or no error if want is empty.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if got := errorMessage(err); !strings.Contains(got, want) || (want == "") != (got == "") {
		t.Errorf("the error is %q, want an error with %q", got, want)
	}
}

// errorMessage returns the text of an error, empty if err is nil.
func errorMessage(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
