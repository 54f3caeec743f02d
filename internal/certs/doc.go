// Package certs provides the serving certificate of the webhook server, and keeps the CA bundles of the
// webhook configurations up to date. It needs no other component in the cluster.
//
// # The idea
//
// An API server calls a webhook over TLS, and trusts only the CAs in the clientConfig.caBundle of that
// webhook. The serving certificate and the bundle must therefore match at any time. Most known outages
// of webhooks result from a change of the two in the wrong order. This package works as follows:
//
//   - All replicas share one CA, which a Secret contains. The first replica creates the CA. A replica
//     renews the CA after two thirds of its validity, and immediately if it is deleted or invalid.
//   - The validity of the CA and of serving certificates starts before their creation, so that the clocks
//     of API servers may differ.
//   - Each replica has its own serving certificate, which the CA signs, and keeps it only in memory. No file
//     is mounted, so there is no delay until the kubelet updates a file.
//   - The bundle reconciler watches the CA and the webhook configurations. A configuration that does not
//     exist is reported, and does not affect the webhooks of the other one. Each caBundle contains the
//     current CA, and the former CAs until they expire. The bundles in the cluster are the only record of
//     the former CAs, so a new replica has the same information as an old replica. The reconciler writes
//     only this field, by server-side apply, and only if the field has to change.
//   - A replica starts to serve a certificate of a new CA after that CA was observed in every existing
//     caBundle, plus a delay in which every API server can observe the CA. Until then the replica serves
//     the former certificate. The bundles still contain the CA of that certificate, so a rotation never
//     makes a request fail.
//
// The package needs no leader. All replicas do the same, and all of them write the same content.
//
// # Readiness and liveness
//
// [Source.Ready] checks the certificates: a certificate is loaded, and the webhook configurations in the
// cluster trust it. The liveness probe must not check certificates, because a restart does not repair
// them. An unavailable API server must not terminate processes that can still respond.
//
// # Clean-up
//
// The Secret is created at run time, so the tool that installed Rollcall does not delete it. Package
// owner makes the ServiceAccount of the process the owner of the Secret. The garbage collector deletes
// the Secret together with the ServiceAccount.
package certs
