// Package standin runs the code of an operator without an API server.
//
// An operator that uses controller-runtime needs a Manager with a client, a scheme, an Event
// recorder and a webhook server. [Manager] provides them in memory. [Admit] sends an object through
// the webhooks that the operator registered, in the order of an API server and over the same HTTP
// handlers.
package standin
