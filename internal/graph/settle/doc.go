// Package settle decides what a derived collection shows.
//
// A derived collection is made of claims: an origin, such as the key of an input object, claims
// that a key shows an object. Several origins may claim one key. [Results] shows the object of the
// smallest of them, and lets the next one take over when that goes. So what is shown depends on the
// claims that there are, and not on the order in which they came. [Net] collects the net changes of
// a step.
package settle
