// Package origin is the object that a migration starts from, and what surrounds it.
//
// # The idea
//
// Each system has kinds of its own, but all of them are Kubernetes objects: they have
// metadata, of which some is the user's and some is the API server's, and they live
// beside other objects that they name. An [Object] carries both to the reader of
// its kind, and [Object.Blueprint] begins the description that every reader fills
// in.
package origin
