// Package policy judges gangs by the rules of a cluster's administrators.
//
// # The idea
//
// A quota counts pods, and other policy engines see one pod or one object. None of them can say that
// a gang has at most 256 accelerators. Rollcall parses the gang at admission, so it can.
//
// Administrators write one [File]. [Read] checks it strictly and compiles it to a [Policy]. [Policy.Judge]
// derives facts from the members of a gang: the size, the accelerators of all pods, the maximum runtime. It
// compares the facts with the limits and rules that hold in the namespace, and returns one [Finding] for each
// violation. A finding names the field that the user wrote, its effect, the limit, the largest value that
// fits, and the rule.
//
// The limits of the cluster hold in every namespace. At most one profile holds in addition, so the
// order of limits and rules never matters, and an additional rule never admits a gang that was
// denied before. An exemption is the only exception: it names its rule, gangs, end date and reason.
//
// # Facts that are not known
//
// A member of a gang with several workloads knows the sizes of the other members, but not their
// accelerators. Such a fact has a lower bound only. If the bound violates a limit, the gang violates
// the limit. Otherwise the finding is [Finding.Unknown], and whoever knows all members judges again.
// Resource claims hide accelerators forever, so the bound must be enough to deny a gang. A rule that is
// false for the bound and for the largest possible number is therefore violated, too.
//
// # Updates
//
// A policy can become stricter while gangs run, and controllers must still be able to update their
// objects. [Worsened] therefore returns only the findings that an update introduced or made worse.
//
// # Purity
//
// The package has no client and no clock. The webhook, the reconciler and the command line call it
// with the same arguments and get the same findings in the same words.
package policy
