// Package xgboost plans the addresses through which the ranks of XGBoost connect to each other.
//
// # The idea
//
// Rank 0 starts the tracker of XGBoost, and every rank connects to the tracker. Two families of variables
// contain its address: the MASTER_ variables of training-operator, for which XGBoostJob programs were
// written, and the DMLC_ names of the tracker's parameters, which Trainer v2 sets. XGBoost
// 3.2 does not read these variables, so a program must pass them to CommunicatorContext, as
// examples/xgboost does. The tracker sorts ranks by their task id as text. With more than 10 ranks, a
// program must pad the id with zeros if the ranks of XGBoost have to equal the ranks of the pods.
//
// A gang with a master completes with the master, as an XGBoostJob does. A gang without a master completes
// when all workers succeed. The tracker in rank 0 finishes after every rank has signed off, so rank 0
// never finishes before the other ranks have trained. The other ranks can have more work to do then, such
// as writing predictions, and must not be stopped. The annotation success-policy: rank0 stops them.
package xgboost
