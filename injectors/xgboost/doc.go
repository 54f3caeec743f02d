// Package xgboost gives XGBoost the addresses by which its ranks meet.
//
// # The idea
//
// Rank 0 starts XGBoost's tracker, and every rank joins it. Where it is, two
// families of variables say: training-operator's MASTER_ and WORKER_, for which
// XGBoostJob programs were written, and the DMLC_ names of the tracker's parameters,
// as Trainer v2 sets them. XGBoost 3.2 reads none of them by itself: a program passes
// them to CommunicatorContext, as examples/xgboost does. The tracker orders ranks by
// task id as text, so that from 11 ranks up a program that wants XGBoost's ranks to
// be the pods' pads the id with zeros.
//
// A gang with a master is done when the master is, as with XGBoostJob. One of workers
// alone is done when all are. The tracker in rank 0 ends when every rank has signed off,
// so rank 0 is not done before the others have trained; what they do after that, such as
// writing predictions of their shard, is work that their user asked for and would be cut
// off. Whoever wants that has success-policy: rank0.
package xgboost
