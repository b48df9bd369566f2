package lw

import "time"

// A requestLimiter bounds how many requests a reflector makes, whatever the server does. The
// backoff alone does not: it ends with any progress, and each answer may bring a little. It is a
// bucket of requestBurst tokens to which one is added each requestEvery. A request spends one. So
// no second sees more than 6 requests, and no minute more than 60.
type requestLimiter struct {
	tokens float64
	filled time.Time // when tokens was last brought up to date; zero: never
}

const (
	requestBurst = 5
	requestEvery = 1100 * time.Millisecond
)

func (p *requestLimiter) fill(now time.Time) {
	if p.filled.IsZero() {
		p.tokens = requestBurst
	} else {
		p.tokens = min(requestBurst, p.tokens+float64(now.Sub(p.filled))/float64(requestEvery))
	}
	p.filled = now
}

// spend notes a request. It never waits, so tokens may become negative.
func (p *requestLimiter) spend(now time.Time) {
	p.fill(now)
	p.tokens--
}

// wait returns how long the next request has to wait.
func (p *requestLimiter) wait(now time.Time) time.Duration {
	p.fill(now)
	if p.tokens >= 1 {
		return 0
	}
	return time.Duration((1 - p.tokens) * float64(requestEvery))
}
