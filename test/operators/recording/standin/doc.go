// Package standin lets an operator's code run without an API server.
//
// An operator that is built on controller-runtime takes what it needs from a
// Manager: a client, a scheme, a recorder of events, a server for its webhooks.
// Manager answers these from memory. Admit then sends an object through the
// webhooks that the operator has registered, in the order of an API server,
// over the same HTTP handlers.
package standin
