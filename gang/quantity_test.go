package gang_test

import (
	"strings"
	"testing"

	"rollcall.training/gang"
)

// TestAttackQuantity checks that a quantity with a large exponent is an error. Without the limit, 1e-2147483647 in an
// annotation of a tenant occupies a process for hours.
func TestAttackQuantity(t *testing.T) {
	for text, valid := range map[string]bool{
		"8Gi": true, "1E": true, "1Ei": true, "1e18": true, "1e-18": true, "1E+3": true, "-1.5": true,
		"1e19": false, "1e-19": false, "0e1000000": false, "1E-1000000": false, "1e99999999999999999999": false,
		strings.Repeat("1", 101): false, "": false, "e": false, "1e": false, "1e1e1": false, "8 GB": false,
	} {
		if _, err := gang.ParseQuantity(text); (err == nil) != valid {
			t.Errorf("%q: error %v, want an error: %t", text, err, !valid)
		}
	}
}
