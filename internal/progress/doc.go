// Package progress reads how far a program is from its log.
//
// # The idea
//
// A user names the lines that a program prints while it makes progress by a regular expression, the [Pattern]. Its
// groups step and total are numbers. Its groups stop and fault mark lines that are not progress. [Pattern.Read] finds
// the lines in the end of a log, whose lines start with the times that the API server adds. The lines without a
// pause between them give the rate, and with the total the remaining time.
//
// Users choose the pattern, and programs choose the log. So the size of both is limited, and the time of a search is
// proportional to the product. RE2 has no pattern that takes longer.
package progress
