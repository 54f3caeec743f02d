// Package typeerror explains why a manifest does not match a Go type.
//
// # The idea
//
// A JSON decoder stops at the first value whose type differs from that of the Go field. Its error
// contains the path in Go names, or only an offset. Users know neither. [Decode] returns such an error,
// and [Explain] converts it to the path in the manifest, the type of the value, and the required type.
package typeerror
