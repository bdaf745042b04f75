// Package bytetime measures, for tests, the processor time that a reader takes for each
// byte of its input: a reader with n² steps takes hundreds of times as long for some inputs
// as for others, and eight times as long for each byte of an input that is eight times as
// large.
//
// It does not know what is read. Tests that use it run alone, since it counts what the
// whole process does, and on Linux.
package bytetime
