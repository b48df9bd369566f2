package pace

import "time"

const (
	// outageAfter is how long a server may be out of touch without being asked whether it is still
	// the same. Nobody restores a server within it, but many connections break and come back.
	outageAfter = time.Second
	// maxUnanswered is how many times in a row the question may break with the connection, although
	// the server can be reached. Then something is wrong with the question.
	maxUnanswered = 3
	// AskAgain is the pause before a server that refused to answer is asked again. It doubles with
	// each refusal, up to AskSeldom, which is about once per watch that is quiet all the time.
	AskAgain  = 30 * time.Second
	AskSeldom = 5 * time.Minute
)

// A Downtime is whether a server is still the same after it was out of touch. It says when to ask a
// witness: whether the server had, at a position, an object that was seen there.
type Downtime struct {
	since      time.Time // when the server was last in touch; zero: it is
	quiet      time.Time // when a silent watch ended early, without an error: an outage may follow
	askNext    time.Time // when the witness is asked again, at the earliest
	unproved   bool      // since the last list there was an outage after which nobody could tell
	unanswered int       // how often in a row the question has broken with the connection
	reachable  bool      // the server has answered another question meanwhile
}

// Lost notes that a request has failed. The server was in touch until that time, at least.
func (d *Downtime) Lost(at time.Time) {
	if !d.since.IsZero() {
		return
	}
	if d.since = at; !d.quiet.IsZero() && d.quiet.Before(at) {
		d.since = d.quiet
	}
}

// Quiet notes that a silent watch has ended early, without an error.
func (d *Downtime) Quiet() { d.quiet = time.Now() }

// Reached notes that the server has answered a question other than the witness's.
func (d *Downtime) Reached() { d.unanswered, d.reachable = 0, true }

// Broken notes that the question has broken with the connection. often says that it has for too
// many times in a row, and reachable that the server answers other questions.
func (d *Downtime) Broken() (often, reachable bool) {
	d.unanswered++
	return d.unanswered >= maxUnanswered, d.reachable
}

// Lift ends the doubt: the server is known to be the same, or goes on from the position.
func (d *Downtime) Lift() { *d = Downtime{askNext: d.askNext, unproved: d.unproved} }

// Unproved ends the doubt, though there is no witness.
func (d *Downtime) Unproved() {
	d.Lift()
	d.unproved = true
}

// Deny ends the doubt, since the server does not answer the question. It is asked again after a
// later outage, but not before AskSeldom.
func (d *Downtime) Deny() { *d = Downtime{askNext: time.Now().Add(AskSeldom), unproved: true} }

// Listed ends the doubt: what the server had before no longer matters.
func (d *Downtime) Listed() { *d = Downtime{askNext: d.askNext} }

// outage reports whether the server was out of touch for so long that it may be another one.
func (d *Downtime) outage() bool { return !d.since.IsZero() && time.Since(d.since) > outageAfter }

// Remains reports whether a list may be of another history than what was read before, because of an
// outage after which the witness did not say that it is not.
func (d *Downtime) Remains() bool { return d.unproved || d.outage() }

// Due reports whether the witness is to be asked before the next watch. If another question is to
// be asked as well, and this one has broken too often, the other one comes first.
func (d *Downtime) Due(other bool) bool {
	return d.outage() && !time.Now().Before(d.askNext) && !(other && d.unanswered >= maxUnanswered)
}
