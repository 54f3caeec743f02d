package gang

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantityExponent is the maximum exponent of a quantity in either direction. The largest suffix, E, is 10^18.
const maxQuantityExponent = 18

// maxQuantityLength is the maximum length of the text of a quantity. The time to parse digits grows faster than their
// number.
const maxQuantityLength = 100

// ParseQuantity parses a quantity that somebody wrote in a text. [resource.ParseQuantity] computes powers of ten, so
// 1e-2147483647 would take hours and gigabytes. API servers write the quantities in the fields of objects without
// exponents that are so large.
func ParseQuantity(text string) (resource.Quantity, error) {
	if len(text) > maxQuantityLength {
		return resource.Quantity{}, fmt.Errorf("the text has %d bytes; at most %d are allowed", len(text), maxQuantityLength)
	}
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e") // also the suffixes E and Ei, which are not numbers
	n, err := strconv.ParseInt(exponent, 10, 64)
	if err == nil && (n < -maxQuantityExponent || n > maxQuantityExponent) {
		return resource.Quantity{}, fmt.Errorf("the exponent %d is not from -%d to %d",
			n, maxQuantityExponent, maxQuantityExponent)
	}
	return resource.ParseQuantity(text)
}
