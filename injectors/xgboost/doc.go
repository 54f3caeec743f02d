// Package xgboost gives XGBoost the addresses by which its ranks meet.
//
// # The idea
//
// Rank 0 starts XGBoost's tracker, and every rank joins it. Where it is, two
// families of variables say: training-operator's MASTER_ and WORKER_, for which
// XGBoostJob programs were written, and the DMLC_ names, which are the tracker's
// own.
package xgboost
