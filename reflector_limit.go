package lw

import "time"

// A requestLimiter bounds how many requests a reflector makes, whatever the server does. The
// backoff alone does not: it ends with any progress, and each answer may bring a little.
//
// It is a bucket of at most requestBurst tokens. One is added each requestEvery, and a request
// spends one. So no second sees more than 6 requests, and no minute more than 60. Two kinds of
// requests are not counted: a page after one that had items, since the list makes progress, and the
// first page of a list that begins again, which it does at most twice (see Reflector.pages).
//
// Only the goroutine of Run uses it.
type requestLimiter struct {
	tokens float64   // may be negative
	filled time.Time // when tokens was last brought up to date; zero: never
}

const (
	requestBurst = 5
	requestEvery = 1100 * time.Millisecond
)

// fill adds the tokens that are due since the last call.
func (p *requestLimiter) fill(now time.Time) {
	if p.filled.IsZero() {
		p.tokens = requestBurst
	} else {
		p.tokens = min(requestBurst, p.tokens+float64(now.Sub(p.filled))/float64(requestEvery))
	}
	p.filled = now
}

// spend counts a request. It does not wait: the caller has called wait before, or accepts that
// tokens become negative.
func (p *requestLimiter) spend(now time.Time) {
	p.fill(now)
	p.tokens--
}

// wait returns how long to pause before the next request. It does not pause itself.
func (p *requestLimiter) wait(now time.Time) time.Duration {
	p.fill(now)
	if p.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - p.tokens) * float64(requestEvery))
}
