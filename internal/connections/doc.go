// Package connections bounds what the clients of a server occupy.
//
// # The idea
//
// Every pod of the cluster can connect to the ports of Rollcall, and most of them authenticate nobody. A server of this
// package therefore never waits for a client with anything that others need:
//
//   - [Limit] accepts a number of connections and of bytes, in total and from each address. If they are exceeded, it
//     closes the connection for whose client the server has waited for the longest time.
//   - A [Limiter] gives a request one of a few slots only after the request has arrived, and takes the slot back before
//     the client reads the response. Addresses take turns, and a namespace has half of the slots.
//   - [NewServer] and the deadlines of a [Request] end what a slow client occupies.
//
// [NewPort] is such a server for metrics and probes. Package webhook has one for admission requests.
package connections
